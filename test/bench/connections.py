"""Cost of a claim with 1 to 64 concurrent connections."""

from __future__ import annotations

import re
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.cluster import Bench, Session
from bench.fill import fill_pgmq, fill_pgq
from bench.measure import alternate
from bench.meter import Meter
from bench.report import Section, number

N = 10
CONNECTIONS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Contestant:
    """A pgbench script that takes and ends messages, and the queue that it needs."""

    fill: Callable[[Session, str, int], None]
    create: str
    tables: str
    script: str


CONTESTANTS = {
    "pgq": Contestant(
        fill_pgq,
        "select pgq.create_queue('many')",
        "pgq.ready, pgq.lease",
        f"select max(lease_id) as lease from pgq.claim('many', n => {N}) \\gset\n"
        "select pgq.ack(:lease);\n",
    ),
    "pgmq": Contestant(
        fill_pgmq,
        "select pgmq.create('many')",
        "pgmq.q_many",
        f"select array_agg(msg_id) as ids from pgmq.read('many', 30, {N}) \\gset\n"
        "select count(*) from pgmq.delete('many', :ids::bigint[]);\n",
    ),
}


def run(bench: Bench, section: Section) -> None:
    section.say(
        f"Each connection claims {N} messages of a backlog and acknowledges them, as fast as it "
        "can (pgmq: reads and deletes). CPU is that of the whole server, in microseconds per "
        "message. Messages per second also depend on the disk."
    )
    rows: list[list[str]] = []
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTESTANTS}
    with bench.database() as dsn:
        with Session(dsn) as session:
            for contestant in CONTESTANTS.values():
                session.execute(contestant.create)
        for connections in CONNECTIONS:
            turns = max(bench.pick(2, 64), bench.pick(128, 2048) // connections)
            results = alternate(
                bench.pick(1, 3),
                {
                    name: partial(take, bench, dsn, contestant, connections, turns)
                    for name, contestant in CONTESTANTS.items()
                },
            )
            cells = [str(connections)]
            for name, found in results.items():
                cpu = statistics.median(pair[0] for pair in found)
                rate = statistics.median(pair[1] for pair in found)
                lines[name].append((connections, cpu))
                cells += [number(cpu), f"{rate:,.0f}"]
            rows.append(cells)
    columns = [f"{name}, {what}" for name in CONTESTANTS for what in ("CPU", "messages/s")]
    section.table(["connections", *columns], rows)
    title = "CPU of the server for a message, by connections"
    section.plot(title, "connections", "microseconds", lines, log="x")
    ratio = lines["pgq"][-1][1] / lines["pgmq"][-1][1]
    section.at_most(f"CPU of a message, {CONNECTIONS[-1]} connections, pgq : pgmq", ratio, 1)


def take(
    bench: Bench, dsn: str, contestant: Contestant, connections: int, turns: int
) -> tuple[float, float]:
    """Return the server's CPU for a message, and messages a second."""
    count = connections * turns * N
    with Session(dsn) as session:
        # More messages than are claimed: locked rows are skipped, and no claim may come up empty.
        contestant.fill(session, "many", count + 200 * N)
        session.execute(f"vacuum analyze {contestant.tables}")
        database = session.conn.info.dbname
    meter = Meter(bench)
    with TemporaryDirectory() as scratch:
        script = Path(scratch) / "take.sql"
        script.write_text(contestant.script)
        done = subprocess.run(
            [
                bench.server.program("pgbench"),
                "-n",
                "-M",
                "prepared",
                "-f",
                script,
                "-c",
                str(connections),
                "-j",
                "2",
                "-t",
                str(turns),
                database,
            ],
            env=bench.server.environment(database),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    cpu = meter.laps()[0]
    found = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"pgbench: {done.stdout}")
    return 1e6 * cpu / count, N * float(found[1])
