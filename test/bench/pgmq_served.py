"""Cost of pgmq's functions when pgq_pgmq provides them, beside pgmq."""

from __future__ import annotations

from bench.cluster import Bench, Session
from bench.cost import Case, compare
from bench.report import Section, number
from bench.systems import Pgmq
from harness.paths import ROOT
from pgq import __version__

CASES = [
    Case(1, 1, 50, 2_000),
    Case(10, 10, 200, 10_000),
    Case(100, 100, 1000, 30_000),
    Case(1000, 1000, 3000, 50_000),
]


class Served(Pgmq):
    """A queue of pgq behind the functions of pgmq."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.name = "pgq_pgmq"
        self.tables = ("pgq.ready", "pgq.lease", "pgq.scheduled")


def run(bench: Bench, section: Section) -> None:
    section.say(
        "Backend CPU in microseconds and WAL in bytes for one message of 200 bytes. Messages are "
        "sent, read and deleted in batches of this size by the same statements, as in "
        "[cost](#cost). The extension pgq_pgmq provides pgmq's schema on queues of pgq. Each "
        "system has its own database, so the two do not run in turns."
    )
    rows = []
    for case in CASES:
        with bench.database() as dsn:
            found = compare(bench, dsn, case, [Pgmq("orders")], bench.pick(2, 5))
        with bench.database() as dsn:
            with Session(dsn) as session:
                session.execute("drop schema pgmq cascade")
                script = ROOT / "extension" / f"pgq_pgmq--{__version__}.sql"
                session.conn.execute(script.read_bytes())
            found |= compare(bench, dsn, case, [Served("orders")], bench.pick(2, 5))
        peer = found["pgmq"]
        for name, (send, end) in found.items():
            ratio = (send.cpu + end.cpu) / (peer[0].cpu + peer[1].cpu)
            rows.append(
                [
                    f"{case.claim:,}",
                    name,
                    number(send.cpu),
                    number(end.cpu),
                    number(ratio),
                    number(send.wal),
                    number(end.wal),
                ]
            )
    section.table(
        ["batch", "system", "send CPU", "read+delete CPU", "both : pgmq", "send WAL", "end WAL"],
        rows,
    )
