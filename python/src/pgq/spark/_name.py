"""Locks with one owner, who renews them: the name of a stream, and the right to archive."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any, LiteralString, NamedTuple, TypeVar

import psycopg

from pgq._shared.owner import is_dead, myself
from pgq.spark._rows import Server, ask, connect

__all__ = ["Archive", "Name", "Turn"]

log = logging.getLogger("pgq.spark")

Run = Callable[..., list[Any]]
T = TypeVar("T")


class Turn(ABC):
    """A lock in the database with one owner, who renews it."""

    def __init__(self, dsn: str, what: str, timeout: timedelta, pause: timedelta) -> None:
        self.dsn = dsn
        self.timeout = timeout
        self.owner = myself()
        self._what = what
        self._pause = pause
        self._server = Server(dsn, f"pgq spark {what}")
        self._stopped = threading.Event()
        self._beat: threading.Thread | None = None

    @abstractmethod
    def take(self, run: Run) -> Any:
        """Take or renew the lock; raises 55006 (ObjectInUse) if another process owns it."""

    @abstractmethod
    def leave(self, owner: str) -> None:
        """Release the lock of an owner."""

    def begin(self) -> Any:
        """Take the lock; wait for the end or the timeout of another owner, and then raise."""
        try:
            found = self._wait()
        except BaseException:
            self._server.close()
            raise
        if self._beat is None:
            self._beat = threading.Thread(target=self._keep, daemon=True)
            self._beat.start()
        return found

    def _wait(self) -> Any:
        deadline = time.monotonic() + self.timeout.total_seconds() * 1.5
        while True:
            try:
                return self.take(self.ask)
            except psycopg.errors.ObjectInUse as error:
                if time.monotonic() > deadline:
                    raise
                # Spark kills the process of a stream that ends, so it does not release its name.
                owner = (error.diag.message_detail or "").partition(" has it until ")[0]
                if is_dead(owner):
                    self.leave(owner)
                else:
                    time.sleep(min(1.0, self.timeout.total_seconds() / 10))

    def end(self) -> None:
        """Release the lock."""
        self._stopped.set()
        if self._beat is not None:
            self._beat.join(5)
            try:
                self.leave(self.owner)
            except Exception as error:  # do not hide an earlier error
                log.warning("the %s stays locked until its timeout: %s", self._what, error)
        self._server.close()

    def ask(self, query: LiteralString, *values: Any) -> list[Any]:
        """Run a statement that may run twice: after a lost connection it is repeated."""
        return self._server.ask(query, *values)

    def run(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Call a function with the connection; after a lost connection it is called again."""
        return self._server.run(work)

    def _keep(self) -> None:
        """Renew the lock until the end."""
        while not self._stopped.wait(self._pause.total_seconds()):
            try:
                with connect(self.dsn, "pgq spark heartbeat") as conn:
                    self.take(lambda *query, conn=conn: ask(conn, *query))
            except Exception:  # the next statement of the owner raises the same error
                continue


class Bound(NamedTuple):
    """The state of a name, and the query that it is bound to."""

    finished: int  # the last finished batch
    identity: str  # unique, also among consumers that had the same name
    query: str | None
    committed: int | None  # the last batch that was finished in one commit with its results


class Name(Turn):
    """A consumer's name, and the statements of its owner."""

    def __init__(
        self, dsn: str, topic: str, consumer: str, timeout: timedelta, lease: timedelta | None
    ) -> None:
        # Renewing the name also extends the lease.
        super().__init__(dsn, "stream", timeout, min(timeout, lease or timeout) / 3)
        self.topic = topic
        self.consumer = consumer
        self.lease = lease

    def take(self, run: Run) -> int:
        """Take or renew the name; return the last finished batch."""
        ((batch,),) = run(
            "select pgq.stream_begin(%s, %s, %s, %s, %s)",
            self.topic,
            self.consumer,
            self.owner,
            self.timeout,
            self.lease,
        )
        return int(batch)

    def leave(self, owner: str) -> None:
        self.ask("select pgq.stream_end(%s, %s, %s)", self.topic, self.consumer, owner)

    def bind(self, query: str | None, batch: int | None, anew: bool = False) -> Bound:
        """Bind the name to a query whose checkpoint is at `batch`; None for a new checkpoint."""
        ((finished, identity, known, committed),) = self.ask(
            "select finished, stream_id::text, bound_to, committed"
            " from pgq.stream_bind(%s, %s, %s, %s, %s, %s)",
            self.topic,
            self.consumer,
            self.owner,
            query,
            batch,
            anew,
        )
        return Bound(finished, identity, known, committed)

    def claim(
        self, batch: int, filter: str | None, n: int, runs: bool = True
    ) -> tuple[int, int] | None:
        """Finish the batches before this one and claim it; return its lease and size.

        :param runs: also claim the messages that wait behind the head of an ordering group.
        """
        found = self.ask(
            "select lease_id, size from pgq.stream_claim(%s, %s, %s, %s, %s::jsonb, %s, %s, %s)",
            self.topic,
            self.consumer,
            self.owner,
            batch,
            filter,
            n,
            self.lease,
            runs,
        )
        return found[0] if found else None

    def finish(self, batch: int) -> int:
        """Acknowledge the messages of all batches up to this one; return how many."""
        ((count,),) = self.ask(
            "select pgq.stream_finish(%s, %s, %s, %s)",
            self.topic,
            self.consumer,
            self.owner,
            batch,
        )
        return int(count)


class Archive(Turn):
    """The right to archive the log."""

    def __init__(self, dsn: str, wait: timedelta, timeout: timedelta) -> None:
        super().__init__(dsn, "archive", timeout, timeout / 3)
        self.wait = wait

    def take(self, run: Run) -> None:
        run("select pgq.archive_begin(%s, %s, %s)", self.owner, self.wait, self.timeout)

    def leave(self, owner: str) -> None:
        self.ask("select pgq.archive_end(%s)", owner)
