"""Latency from the commit of a message to its claim by an idle consumer."""

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
        "idle consumer has claimed the message. With several runs, the figure is their median. "
        "A waiting consumer has registered and gets a notification. A polling consumer claims "
        "again after a fixed time."
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
        f"A `Consumer` of the Python package whose queue is empty for {seconds} s sends at most "
        f"{number(statements)} statements per minute. It renews its registration and calls "
        "maintain(). This number includes the transactions of autovacuum."
    )
    if bench.scale == "full":
        section.at_most("an idle consumer: statements a minute", statements, 20)


def idle_statements(bench: Bench, seconds: float) -> int:
    """Return how many statements an idle consumer sends, including maintenance."""
    with bench.database() as dsn, Session(dsn) as session, pgq.connect(dsn) as client:
        client.create_queue("idle")
        with pgq.Consumer(client, "idle", lambda message: None):
            time.sleep(3)  # until the consumer waits
            before = transactions(session)
            time.sleep(seconds)
            return transactions(session) - before - 2  # 2 are of this session


def transactions(session: Session) -> int:
    """Return how many transactions have ended in the database; each is one statement."""
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
            # Publish at a random moment of the consumer's sleep.
            time.sleep(0.005 + random.random() * (poll or 0.01))
            session.execute("select pgq.publish('idle', %s, %s)", PAYLOADS[number_], HEADERS)
            committed = time.perf_counter()
            found.append(1000 * max(0.0, moments.get(timeout=60) - committed))
    return found
