"""The compared systems behind one interface."""

from __future__ import annotations

import json
from typing import Protocol

from bench.cluster import Session

HEADERS = '{"type": "order"}'
PAYLOAD_BYTES = 200


def payload(number: int, **fields: str) -> str:
    """Return a JSON object of 200 bytes."""
    body = fields | {"number": number, "text": ""}
    return json.dumps(body | {"text": "x" * (PAYLOAD_BYTES - len(json.dumps(body)))})


PAYLOADS = [payload(number) for number in range(1000)]


class System(Protocol):
    """A queue of one of the systems."""

    @property
    def name(self) -> str: ...
    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables of a queue, without the log."""

    def create(self, session: Session) -> None: ...
    def publish(self, session: Session, count: int, batch: int) -> None: ...
    def consume(self, session: Session, count: int, batch: int) -> None: ...


class Pgq:
    """A queue of pgq. With journal "failures" an ack is not recorded, as with pgmq's delete."""

    tables = ("pgq.ready", "pgq.lease", "pgq.scheduled")

    def __init__(self, queue: str, journal: str = "all") -> None:
        self.name = "pgq" if journal == "all" else f"pgq, journal {journal}"
        self.queue = queue
        self.journal = journal

    def create(self, session: Session) -> None:
        session.execute("select pgq.create_queue(%s, journal => %s)", self.queue, self.journal)

    def publish(self, session: Session, count: int, batch: int) -> None:
        if batch == 1:
            for number in range(count):
                session.execute(
                    "select pgq.publish(%s, %s, %s)", self.queue, PAYLOADS[number % 1000], HEADERS
                )
            return
        for _ in range(count // batch):
            session.execute(
                "select pgq.publish_batch(%s, %s::jsonb[], %s::jsonb[])",
                self.queue,
                PAYLOADS[:batch],
                [HEADERS] * batch,
            )

    def consume(self, session: Session, count: int, batch: int) -> None:
        left = count
        while left > 0:
            cursor = session.execute("select * from pgq.claim(%s, n => %s)", self.queue, batch)
            row = cursor.fetchone()
            if row is None:
                raise RuntimeError(f"{left} messages are missing")
            session.execute("select pgq.ack(%s)", row[0])
            left -= cursor.rowcount


class Chained(Pgq):
    """A queue of pgq whose consumer acknowledges each batch with the claim of the next."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.name = "pgq, one call"

    def consume(self, session: Session, count: int, batch: int) -> None:
        left, lease = count, None
        while left > 0:
            cursor = session.execute(
                "select * from pgq.claim(%s, n => %s, done => %s)", self.queue, batch, lease
            )
            row = cursor.fetchone()
            if row is None:
                raise RuntimeError(f"{left} messages are missing")
            lease = row[0]
            left -= cursor.rowcount
        session.execute("select pgq.ack(%s)", lease)


class Pgmq:
    """A queue of pgmq, whose messages end by delete or by archive."""

    def __init__(self, queue: str, end: str = "delete") -> None:
        self.name = "pgmq" if end == "delete" else f"pgmq, {end}"
        self.queue = queue
        self.end = end
        self.tables: tuple[str, ...] = (f"pgmq.q_{queue}",)

    def create(self, session: Session) -> None:
        session.execute("select pgmq.create(%s)", self.queue)

    def publish(self, session: Session, count: int, batch: int) -> None:
        if batch == 1:
            for number in range(count):
                session.execute(
                    "select pgmq.send(%s, %s::jsonb, %s::jsonb)",
                    self.queue,
                    PAYLOADS[number % 1000],
                    HEADERS,
                )
            return
        for _ in range(count // batch):
            session.execute(
                "select pgmq.send_batch(%s, %s::jsonb[], %s::jsonb[])",
                self.queue,
                PAYLOADS[:batch],
                [HEADERS] * batch,
            )

    def consume(self, session: Session, count: int, batch: int) -> None:
        left = count
        while left > 0:
            cursor = session.execute("select * from pgmq.read(%s, 30, %s)", self.queue, batch)
            ids = [row[0] for row in cursor]
            if not ids:
                raise RuntimeError(f"{left} messages are missing")
            session.execute(f"select pgmq.{self.end}(%s, %s::bigint[])", self.queue, ids)
            left -= len(ids)


def clean(session: Session, system: System) -> None:
    """Vacuum the tables, so that each round begins in the same state."""
    for table in system.tables:
        session.execute(f"vacuum {table}")


def analyze(session: Session, system: System) -> None:
    """Analyze the tables, so that the planner has statistics of a full queue."""
    for table in system.tables:
        session.execute(f"analyze {table}")


def size(session: Session, system: System) -> int:
    """Return the bytes of the tables, with their indexes."""
    return sum(
        int(session.value("select pg_total_relation_size(%s::regclass)", table))
        for table in system.tables
    )
