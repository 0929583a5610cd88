"""``pgq bench``: measures this server, in a database that is dropped afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgq._sync.client import Client
from pgq.cli import _sql
from pgq.cli._command import Commands, Options, connect, positive
from pgq.cli._output import Output, say
from pgq.cli._progress import Progress
from pgq.cli.install import install

__all__ = ["add"]

_QUEUE = "bench"
_TYPES = 10


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "bench",
        bench,
        "measure this server, in a database that is dropped afterwards",
        """
        pgq bench
        pgq bench --messages 100000 --batch 1000 --json
        """,
        more="Needs the right to create a database. One connection makes one call after the other, "
        "so a\nround trip is part of every figure. A tenth of the messages match the filtered "
        "claim.\n\n",
    )
    parser.add_argument("--messages", type=positive, default=10_000, help="how many (10000)")
    parser.add_argument("--batch", type=positive, default=100, help="messages per call (100)")
    parser.add_argument("--size", type=positive, default=200, help="bytes per payload (200)")


def bench(options: Options, out: Output) -> None:
    """Publish, claim and acknowledge; print the rates."""
    rows = []
    with _scratch(options) as conn:
        client = Client(conn)
        client.create_queue(_QUEUE, lane_keys=["type"])
        run = Round(client, options)
        singles = max(options.messages // 20, 1)
        for name, phase, count in (
            ("publish, one by one", run.publish_each, singles),
            ("claim and ack, one by one", run.consume_each, singles),
            (f"publish by {options.batch}", run.publish, options.messages),
            (f"claim by filter and ack by {options.batch}", run.consume_some, 0),
            (f"claim and ack by {options.batch}", run.consume, 0),
        ):
            rows.append(_measured(name, phase, count))
    out.rows(rows)


@contextmanager
def _scratch(options: Options) -> Iterator[psycopg.Connection[Any]]:
    """Create a database with pgq; drop it when the block ends."""
    name = f"pgq_bench_{uuid4().hex[:12]}"
    with connect(options) as owner:
        owner.execute(sql.SQL(_sql.CREATE_DATABASE).format(sql.Identifier(name)))
        say(f"measuring in database {name}")
        try:
            there = make_conninfo(options.dsn, dbname=name)
            with psycopg.connect(there, autocommit=True, application_name="pgq bench") as conn:
                install(conn)
                yield conn
        finally:
            owner.execute(sql.SQL(_sql.DROP_DATABASE).format(sql.Identifier(name)))


def _measured(name: str, phase: Callable[[int], int], count: int) -> dict[str, Any]:
    began, used = time.perf_counter(), time.process_time()
    done = phase(count)
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    return {
        "what": name,
        "messages": done,
        "seconds": round(seconds, 3),
        "per_second": round(done / seconds),
        "client_cpu_us": round(cpu / max(done, 1) * 1e6, 1),
    }


class Round:
    """The phases of the benchmark; each returns its number of messages."""

    def __init__(self, client: Client, options: Options) -> None:
        self._client = client
        self._batch = options.batch
        self._payload = {"text": "x" * options.size}

    def publish_each(self, count: int) -> int:
        """Publish one by one."""
        for number in range(count):
            self._client.publish(_QUEUE, self._payload, headers={"type": str(number % _TYPES)})
        return count

    def publish(self, count: int) -> int:
        """Publish by the batch."""
        progress = Progress(count, "messages")
        for first in range(0, count, self._batch):
            numbers = range(first, min(first + self._batch, count))
            self._client.publish_batch(
                _QUEUE,
                [self._payload] * len(numbers),
                headers=[{"type": str(number % _TYPES)} for number in numbers],
            )
            progress.at(numbers.stop, numbers.stop)
        progress.close()
        return count

    def consume_each(self, count: int) -> int:
        """Claim and acknowledge one by one."""
        done = 0
        for _ in range(count):
            with self._client.claim(_QUEUE) as batch:
                done += len(batch)
        return done

    def consume_some(self, _: int) -> int:
        """Claim by filter, by the batch."""
        return self._consume({"type": "0"})

    def consume(self, _: int) -> int:
        """Claim by the batch, until nothing is left."""
        return self._consume(None)

    def _consume(self, filter: dict[str, str] | None) -> int:
        done = 0
        while True:
            with self._client.claim(_QUEUE, filter, self._batch) as batch:
                if not batch:
                    return done
                done += len(batch)
