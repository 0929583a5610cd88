"""How soon an idle consumer gets a message."""

from __future__ import annotations

import queue
import random
import statistics
import time

import pgq
from bench.cluster import Bench, Session
from bench.measure import percentile
from bench.report import Section, number
from bench.systems import HEADERS, PAYLOADS
from bench.waiting import Consumer


def run(bench: Bench, section: Section) -> None:
    section.say(
        "Milliseconds from the commit of a single message, as its publisher sees it, until an "
        "idle consumer has claimed it; the median of several runs. Waiting: the consumer has "
        "registered and is notified. Polling: the consumer claims again after a fixed time."
    )
    rows = []
    with bench.database() as dsn, Session(dsn) as session:
        session.execute("select pgq.create_queue('idle')")
        for name, poll, samples, runs in (
            ("waiting", None, bench.pick(30, 500), bench.pick(1, 3)),
            ("polling every 100 ms", 0.1, bench.pick(5, 100), 1),
            ("polling every 1 s", 1.0, bench.pick(2, 30), 1),
        ):
            found = [latencies(dsn, session, poll, samples) for _ in range(runs)]
            p50 = statistics.median(percentile(run_, 50) for run_ in found)
            p99 = statistics.median(percentile(run_, 99) for run_ in found)
            verdicts = ["", ""]
            if poll is None:
                verdicts = [
                    section.at_most("wake-up: p50", p50, 5, "ms"),
                    section.at_most("wake-up: p99", p99, 20, "ms"),
                ]
            rows.append(
                [name, f"{runs} x {samples}", number(p50), verdicts[0], number(p99), verdicts[1]]
            )
    section.table(["consumer", "messages", "p50", "", "p99", ""], rows)
    seconds = bench.pick(2, 120)
    statements = 60 * idle_statements(bench, seconds) / seconds
    section.say(
        f"A `Consumer` of the Python package that finds nothing for {seconds} s sends at most "
        f"{number(statements)} statements a minute: it renews its registration and calls "
        "maintain(). The transactions of autovacuum are counted, too."
    )
    if bench.scale == "full":
        section.at_most("an idle consumer: statements a minute", statements, 20)


def idle_statements(bench: Bench, seconds: float) -> int:
    """Return how many statements an idle consumer sends in this time, maintenance included."""
    with bench.database() as dsn, Session(dsn) as session, pgq.connect(dsn) as client:
        client.create_queue("idle")
        with pgq.Consumer(client, "idle", lambda message: None):
            time.sleep(3)  # it has fallen asleep
            before = transactions(session)
            time.sleep(seconds)
            return transactions(session) - before - 2  # those of this session


def transactions(session: Session) -> int:
    """Return how many transactions have ended in the database; each statement is one."""
    session.execute("select pg_stat_force_next_flush()")
    time.sleep(1.2)  # other backends report at most once a second
    query = "select xact_commit + xact_rollback from pg_stat_database where datname = %s"
    return int(session.value(query, session.conn.info.dbname))


def latencies(dsn: str, session: Session, poll: float | None, samples: int) -> list[float]:
    moments: queue.Queue[float] = queue.Queue()
    found = []
    with Consumer(dsn, "idle", 1, moments.put, poll=poll) as consumer:
        for number_ in range(samples):
            if poll is None:
                consumer.asleep.wait(10)
            # Any moment of the consumer's sleep is as likely as any other.
            time.sleep(0.005 + random.random() * (poll or 0.01))
            session.execute("select pgq.publish('idle', %s, %s)", PAYLOADS[number_], HEADERS)
            committed = time.perf_counter()
            found.append(1000 * max(0.0, moments.get(timeout=60) - committed))
    return found
