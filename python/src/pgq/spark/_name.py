"""What one process does at a time, and says so while it lives: a stream's consumer, the archive."""

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
    """Something that has one owner, who renews it."""

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
        """Take it, or keep it; 55006 if another process has it."""

    @abstractmethod
    def leave(self, owner: str) -> None:
        """Give free what the owner has."""

    def begin(self) -> Any:
        """Take it. If another process has it, wait as long as that may be dead."""
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
                # Spark kills the process of a stream that ends: nobody gives the name free.
                owner = (error.diag.message_detail or "").partition(" has it until ")[0]
                if is_dead(owner):
                    self.leave(owner)
                else:
                    time.sleep(min(1.0, self.timeout.total_seconds() / 10))

    def end(self) -> None:
        """Give it free."""
        self._stopped.set()
        if self._beat is not None:
            self._beat.join(5)
            try:
                self.leave(self.owner)
            except Exception as error:  # what went wrong before is the error to tell
                log.warning("the %s is not given free before its timeout: %s", self._what, error)
        self._server.close()

    def ask(self, query: LiteralString, *values: Any) -> list[Any]:
        """Run a statement; all of them can be repeated, so once more on a new connection."""
        return self._server.ask(query, *values)

    def run(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Do something with the connection that can be repeated."""
        return self._server.run(work)

    def _keep(self) -> None:
        """Say that this process lives, until it ends."""
        while not self._stopped.wait(self._pause.total_seconds()):
            try:
                with connect(self.dsn, "pgq spark heartbeat") as conn:
                    self.take(lambda *query, conn=conn: ask(conn, *query))
            except Exception:  # the next statement of the owner meets it too, and can tell
                continue


class Bound(NamedTuple):
    """What a name is tied to."""

    finished: int  # the last batch that is finished
    identity: str  # tells the consumer from others of its name
    query: str | None
    committed: int | None  # the last batch that was finished together with what came of it


class Name(Turn):
    """A consumer's name, and the statements of its owner."""

    def __init__(
        self, dsn: str, topic: str, consumer: str, timeout: timedelta, lease: timedelta | None
    ) -> None:
        # The lease is renewed with the name.
        super().__init__(dsn, "stream", timeout, min(timeout, lease or timeout) / 3)
        self.topic = topic
        self.consumer = consumer
        self.lease = lease

    def take(self, run: Run) -> int:
        """Take the name, or keep it; return the last batch that is finished."""
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
        """Tie the name to a query whose checkpoint is at the batch, or new."""
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

        :param runs: of an ordering group take what waits behind its head, too.
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
        """Acknowledge what the batches up to this one still hold; return how many messages."""
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
