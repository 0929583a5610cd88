"""The name of a stream's consumer: one process has it at a time, and says so while it lives."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any, LiteralString

import psycopg

from pgq._owner import is_dead, myself
from pgq.errors import LeaseLost
from pgq.spark._rows import ask, connect

__all__ = ["Name"]


class Name:
    """A consumer's name, and the statements of its owner."""

    def __init__(
        self, dsn: str, topic: str, consumer: str, timeout: timedelta, lease: timedelta | None
    ) -> None:
        self.dsn = dsn
        self.topic = topic
        self.consumer = consumer
        self.timeout = timeout
        self.lease = lease
        self.owner = myself()
        self._conn: psycopg.Connection[Any] | None = None
        self._stopped = threading.Event()
        self._beat: threading.Thread | None = None

    def begin(self) -> int:
        """Take the name, or keep it; return the last batch that is finished.

        One that another process has is waited for as long as that may be dead.
        """
        deadline = time.monotonic() + self.timeout.total_seconds() * 1.5
        while True:
            try:
                ((batch,),) = self._begin(self.ask)
                break
            except psycopg.errors.ObjectInUse as error:
                if time.monotonic() > deadline:
                    raise
                # Spark kills the process of a stream that ends: nobody gives the name free.
                owner = (error.diag.message_detail or "").partition(" has it until ")[0]
                if is_dead(owner):
                    self.ask("select pgq.stream_end(%s, %s, %s)", self.topic, self.consumer, owner)
                else:
                    time.sleep(min(1.0, self.timeout.total_seconds() / 10))
        if self._beat is None:
            self._beat = threading.Thread(target=self._keep, daemon=True)
            self._beat.start()
        return int(batch)

    def claim(self, batch: int, filter: str | None, n: int) -> tuple[int, int] | None:
        """Finish the batches before this one and claim it; return its lease and size."""
        found = self.ask(
            "select lease_id, size from pgq.stream_claim(%s, %s, %s, %s, %s::jsonb, %s, %s)",
            *(self.topic, self.consumer, self.owner, batch, filter, n, self.lease),
        )
        return found[0] if found else None

    def finish(self, batch: int) -> None:
        """Acknowledge the batches up to this one."""
        self.ask(
            "select pgq.stream_finish(%s, %s, %s, %s)",
            *(self.topic, self.consumer, self.owner, batch),
        )

    def end(self) -> None:
        """Give the name free."""
        self._stopped.set()
        if self._beat is not None:
            self._beat.join(5)
            self.ask("select pgq.stream_end(%s, %s, %s)", self.topic, self.consumer, self.owner)
        if self._conn is not None:
            self._conn.close()

    def ask(self, query: LiteralString, *values: Any) -> list[Any]:
        """Run a statement; all of them can be repeated, so once more on a new connection."""
        for attempt in range(1, 6):
            try:
                if self._conn is None or self._conn.closed:
                    self._conn = connect(self.dsn, "pgq spark stream")
                return ask(self._conn, query, *values)
            except Exception as error:
                broken = self._conn is None or self._conn.broken or self._conn.closed
                if not broken or attempt == 5 or isinstance(error, LeaseLost):
                    raise
                self._conn = None
                time.sleep(attempt)
        raise AssertionError("unreachable")

    def _begin(self, run: Any) -> list[Any]:
        found: list[Any] = run(
            "select pgq.stream_begin(%s, %s, %s, %s, %s)",
            *(self.topic, self.consumer, self.owner, self.timeout, self.lease),
        )
        return found

    def _keep(self) -> None:
        """Say every third of the timeout that this process lives; renew the lease with it."""
        pause = self.timeout.total_seconds() / 3
        if self.lease is not None:
            pause = min(pause, self.lease.total_seconds() / 3)
        while not self._stopped.wait(pause):
            try:
                with connect(self.dsn, "pgq spark heartbeat") as conn:
                    self._begin(lambda *query, conn=conn: ask(conn, *query))
            except Exception:  # the next statement of the owner meets it too, and can tell
                continue
