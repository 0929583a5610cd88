"""Size of the tables and of the WAL in a long run, while eras rotate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.cluster import Bench, Session
from bench.report import Section, number
from bench.systems import HEADERS, PAYLOADS

BATCH = 100
SAMPLES = 120
QUEUE = "soak"
# The run lasts at least until this many eras have rotated.
TURNS = 4
SIZES = """
select coalesce(sum(pg_total_relation_size(c.oid)) filter (where c.relname ~ '^message'), 0),
       coalesce(sum(pg_total_relation_size(c.oid)) filter (where c.relname ~ '^journal'), 0),
       coalesce(sum(pg_total_relation_size(c.oid)) filter (where c.relname !~ '^(message|journal)'),
                0),
       (select last_value from pgq.era_number)
from pg_class c
where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r'
"""


@dataclass(frozen=True)
class Sample:
    """Sizes of the tables at one moment."""

    seconds: float
    messages: float
    journal: float
    rest: float
    era: int
    wal: float

    @property
    def whole(self) -> float:
        return self.messages + self.journal + self.rest


class Worker(threading.Thread):
    """Repeats some work on its own connection until it is stopped."""

    def __init__(self, dsn: str, work: Callable[[Session], int]) -> None:
        super().__init__(daemon=True)
        self._dsn, self._work = dsn, work
        self._stopped = threading.Event()
        self.count = 0
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            with Session(self._dsn) as session:
                while not self._stopped.is_set():
                    self.count += self._work(session)
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        if self.error is not None:
            raise self.error


def run(bench: Bench, section: Section) -> None:
    seconds = bench.soak or bench.pick(6.0, 600.0)
    retention = max(0.5, seconds / 12)
    rate = bench.pick(1000, 2000)
    section.say(
        f"For {number(seconds)} s, about {rate:,} messages of 200 bytes per second are published "
        f"and consumed, {BATCH} at a time. `pgq.maintain()` runs continuously. The retention of "
        f"the queue is {number(retention)} s, so that eras rotate. No row is deleted from the "
        "log. Only autovacuum, at its defaults, vacuums the tables."
    )
    with bench.database() as dsn:
        samples, published, consumed = soak(dsn, seconds, retention, rate)
        with Session(dsn) as session:
            kept = int(session.value("select count(*) from pgq.message"))
    first, last = samples[0], samples[-1]
    half = [sample for sample in samples if sample.seconds >= last.seconds / 2]
    before = max(sample.whole for sample in samples if sample.seconds < last.seconds / 2)
    after = max(sample.whole for sample in half)
    turns = last.era - first.era
    section.table(
        ["", "figure"],
        [
            ["messages published", f"{published:,}"],
            ["messages consumed", f"{consumed:,}"],
            ["eras rotated", str(turns)],
            ["messages in the log at the end", f"{kept:,}"],
            ["peak of the first half, MB", number(before)],
            ["peak of the second half, MB", number(after)],
            ["at the end, MB", number(last.whole)],
            ["WAL, MB", number(last.wal - first.wal)],
            ["WAL for a message, bytes", number(1e6 * (last.wal - first.wal) / published)],
        ],
    )
    series = {
        "messages": [(sample.seconds, sample.messages) for sample in samples],
        "audit log": [(sample.seconds, sample.journal) for sample in samples],
        "everything else": [(sample.seconds, sample.rest) for sample in samples],
    }
    section.plot("Tables with their indexes", "seconds", "MB", series)
    wal = {"WAL": [(sample.seconds, sample.wal - first.wal) for sample in samples]}
    section.plot("WAL written since the beginning", "seconds", "MB", wal)
    section.at_most("peak of the tables, second half : first half", after / before, 1.25)
    section.guard(f"only {turns} eras have rotated", turns >= TURNS)
    section.guard("the log still holds all messages", kept < published)


def soak(dsn: str, seconds: float, retention: float, rate: int) -> tuple[list[Sample], int, int]:
    """Publish, consume and sample; return samples, and the numbers published and consumed."""
    begun = time.monotonic()
    published = 0

    def publish(session: Session) -> int:
        nonlocal published
        ahead = published / rate - (time.monotonic() - begun)
        if ahead > 0:
            time.sleep(ahead)
        query = "select count(*) from pgq.publish_batch(%s, %s::jsonb[], %s::jsonb[])"
        session.execute(query, QUEUE, PAYLOADS[:BATCH], [HEADERS] * BATCH)
        published += BATCH
        return BATCH

    def consume(session: Session) -> int:
        rows = session.execute("select * from pgq.claim(%s, n => %s)", QUEUE, BATCH).fetchall()
        if not rows:
            time.sleep(0.02)
            return 0
        session.execute("select pgq.ack(%s)", rows[0][0])
        return len(rows)

    with Session(dsn) as session:
        session.execute(
            "select pgq.create_queue(%s, retention => make_interval(secs => %s))", QUEUE, retention
        )
        workers = [Worker(dsn, publish), Worker(dsn, consume)]
        samples = [look(session, begun)]
        try:
            while (
                samples[-1].seconds < seconds or samples[-1].era < samples[0].era + TURNS
            ) and samples[-1].seconds < seconds + 120:
                time.sleep(seconds / SAMPLES)
                session.execute("call pgq.maintain()")
                samples.append(look(session, begun))
        finally:
            for worker in workers:
                worker.stop()
    return samples, workers[0].count, workers[1].count


def look(session: Session, begun: float) -> Sample:
    row = session.execute(SIZES).fetchone()
    if row is None:
        raise LookupError("no sizes")
    messages, journal, rest, era = row
    seconds = time.monotonic() - begun
    sizes = (float(messages) / 1e6, float(journal) / 1e6, float(rest) / 1e6)
    return Sample(seconds, *sizes, int(era), session.wal() / 1e6)
