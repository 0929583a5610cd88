"""Latency of claims from a small queue while the log of a large queue is rotated or dumped."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable

from bench.cluster import Bench, Session
from bench.measure import percentile
from bench.report import Section, number

BODY = 2000
FILL = f"""
insert into pgq.message (topic, payload)
select 'large', to_jsonb((
    select string_agg(md5(random()::text), '') from generate_series(1, {BODY // 32}) where i > 0))
from generate_series(1, %s) i
"""


def run(bench: Bench, section: Section) -> None:
    count = bench.pick(5_000, 500_000)
    live = bench.pick(1_000, 100_000)
    section.say(
        f"`pgq.maintain()` rotates a log of {count:,} messages of {BODY:,} bytes. It copies "
        f"{live:,} unfinished messages forward and truncates the rest. Then pg_dump reads the "
        "log. Meanwhile one worker publishes to a small queue, claims and acknowledges, as "
        "fast as it can. The figures are the elapsed time of its claims in milliseconds."
    )
    rows = []
    with bench.database() as dsn:
        with Session(dsn) as session:
            session.execute("select pgq.create_queue('small'), pgq.create_queue('large')")
            session.execute("set synchronous_commit = off")
            for _ in range(20):
                session.execute(FILL, count // 20)
            lease = session.value(
                "select max(lease_id) from pgq.hold('large', 'done', n => %s)", count - live
            )
            session.execute("select pgq.ack(%s)", lease)
            session.execute("update pgq.queue set retention = '0'")
        alone = watch(dsn, lambda: time.sleep(bench.pick(1, 10)))
        rotating = watch(dsn, lambda: rotate(dsn, live))
        dumping = watch(dsn, lambda: dump(bench, dsn))
    for what, times in (
        ("nothing else", alone),
        ("rotation", rotating),
        ("pg_dump", dumping),
    ):
        slowest = max(times)
        verdict = ""
        if what != "nothing else":
            verdict = section.at_most(
                f"slowest claim during {what}", slowest - max(alone), 50, "ms"
            )
        cells = [number(percentile(times, 50)), number(percentile(times, 99)), number(slowest)]
        rows.append([what, f"{len(times):,}", *cells, verdict])
    section.table(["beside", "claims", "median", "99 %", "slowest", ""], rows)


def watch(dsn: str, work: Callable[[], object]) -> list[float]:
    """Do the work, and return the times of concurrent claims in milliseconds."""
    times: list[float] = []
    done = threading.Event()

    def claims() -> None:
        with Session(dsn) as session:
            while not done.is_set() or len(times) < 100:
                session.execute("select pgq.publish('small', '1')")
                started = time.perf_counter()
                row = session.execute("select * from pgq.claim('small')").fetchone()
                times.append(1000 * (time.perf_counter() - started))
                if row:
                    session.execute("select pgq.ack(%s)", row[0])

    worker = threading.Thread(target=claims)
    worker.start()
    try:
        work()
    finally:
        done.set()
        worker.join()
    return times


def rotate(dsn: str, live: int) -> None:
    """Call maintain() until the finished messages have left the log."""
    with Session(dsn) as session:
        session.execute("update pgq.era set started_at = started_at - interval '1 day'")
        for _ in range(300):
            session.execute("call pgq.maintain()")
            if session.value("select count(*) from pgq.message where topic = 'large'") <= live:
                return
            time.sleep(0.1)
        raise RuntimeError("the log was not rotated")


def dump(bench: Bench, dsn: str) -> None:
    command = [str(bench.server.program("pg_dump")), "--format=plain", "--dbname", dsn]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
