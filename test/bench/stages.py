"""Filtering in the worker, in the database, and in the database with lanes, by match rate."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta

import pgq
from bench.cluster import Bench, Session
from bench.measure import Usage, measure
from bench.report import Section, number
from bench.systems import PAYLOAD_BYTES

RATES = (1, 10, 50, 90, 100)
N = 100
LATER = timedelta(hours=1)
WAYS = ("in the worker", "in the database", "in the database, a lane key")


@dataclass(frozen=True)
class Pass:
    """The cost of handling all matches of a queue."""

    matches: int
    fetched: int
    backend: Usage
    client: float

    @property
    def cpu(self) -> float:
        """Return microseconds of CPU per match, backend and client together."""
        return (self.backend.cpu + self.client) / self.matches

    def row(self) -> list[str]:
        return [
            f"{self.fetched:,}",
            number(self.fetched * PAYLOAD_BYTES / 1000),
            number(self.backend.cpu / self.matches),
            number(self.client / self.matches),
            number(self.backend.seconds / self.matches * 1e6),
        ]


def run(bench: Bench, section: Section) -> None:
    messages = bench.pick(2000, 50_000)
    section.say(
        f"A worker wants some messages of a queue of {messages:,}. It claims {N} at a time and "
        'acknowledges the messages that it wants. "In the worker" means that it claims all '
        "messages and releases the others with a delay. The table has the messages and kilobytes "
        "of payload that were fetched. Per wanted message it has microseconds of backend CPU, of "
        "client CPU, and elapsed."
    )
    rows = []
    cheaper: dict[str, int] = {}
    with bench.database() as dsn, Session(dsn, parse=True) as session:
        for rate in RATES:
            passes = {way: once(session, way, messages, rate) for way in WAYS}
            rows += [[f"{rate} %, {way}", *found.row()] for way, found in passes.items()]
            for way in WAYS[1:]:
                if passes[WAYS[0]].cpu < passes[way].cpu:
                    cheaper.setdefault(way, rate)
            if rate == RATES[0]:
                section.guard(
                    f"at {rate} % the database is cheaper",
                    passes[WAYS[2]].cpu < passes[WAYS[0]].cpu,
                )
    section.table(
        ["matching, filtered", "fetched", "kB", "backend us", "client us", "clock us"], rows
    )
    for way in WAYS[1:]:
        section.say(
            f"Break-even, by CPU of both sides: {WAYS[0]} is cheaper than {way} from "
            f"{cheaper[way]} % on."
            if way in cheaper
            else f"Break-even: {WAYS[0]} is never cheaper than {way}."
        )


def once(session: Session, way: str, messages: int, rate: int) -> Pass:
    """Fill a queue and handle the matches."""
    session.execute("select pgq.create_queue('stage', %s)", ["bucket"] if way == WAYS[2] else None)
    session.execute(
        "insert into pgq.message (topic, headers, payload) select 'stage',"
        " jsonb_build_object('bucket', i * 37 %% 100), to_jsonb(repeat('x', %s))"
        " from generate_series(1, %s) i",
        PAYLOAD_BYTES - 2,
        messages,
    )
    session.execute("analyze pgq.message, pgq.ready")
    client = pgq.Client(session.conn)
    handle = in_worker if way == WAYS[0] else in_database
    counts: list[tuple[int, int]] = []
    before = time.process_time()
    usage = measure(session, lambda: counts.append(handle(client, rate)))
    spent = (time.process_time() - before) * 1e6
    session.execute("select pgq.drop_queue('stage', force => true)")
    matches, fetched = counts[0]
    if matches != messages * rate // 100:
        raise RuntimeError(f"{matches} of {messages} matched at {rate} %")
    return Pass(matches, fetched, usage, spent)


def in_database(client: pgq.Client, rate: int) -> tuple[int, int]:
    """Claim with a filter; return how many messages matched and how many were fetched."""
    matches = 0
    while batch := client.claim("stage", pgq.F.bucket < rate, n=N):
        matches += len(batch)
        batch.ack()
    return matches, matches


def in_worker(client: pgq.Client, rate: int) -> tuple[int, int]:
    """Claim all messages and keep the matches; return the same numbers."""
    matches = fetched = 0
    while batch := client.claim("stage", n=N):
        fetched += len(batch)
        batch.keep(lambda message: bool(message.headers["bucket"] < rate), delay=LATER)
        matches += len(batch)
        if batch:
            batch.ack()
    return matches, fetched
