"""One connection that hears notifications, for any number of consumers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection
from tenacity import AsyncRetrying

from pgq import _sql
from pgq._aio import NOTIFY_SECONDS, Event, Task
from pgq._log import log, reason
from pgq._trouble import is_trouble, patience

if TYPE_CHECKING:
    from pgq.client_async import AsyncPooledClient

__all__ = ["AsyncListener"]

# How long a notification of our own may take; a pooler that shares sessions swallows it.
_PROOF_SECONDS = 3.0


class AsyncListener:
    """Hears the notifications of pgq and wakes those who sleep on a queue.

    Whether notifications arrive at all is tried with one of its own: a pooler that gives each
    transaction another session accepts LISTEN and delivers nothing.
    """

    def __init__(self, client: AsyncPooledClient) -> None:
        self._client = client
        self._state: Literal["down", "up", "impossible"] = "down"
        self._proven = False
        self._lock = threading.Lock()
        self._sleepers: dict[str, set[Event]] = {}
        self._stopping = Event()
        self._task: Task | None = None

    @property
    def hears(self) -> bool:
        """Whether notifications are being heard at the moment."""
        return self._state == "up"

    @property
    def impossible(self) -> bool:
        """Whether this database cannot be listened to, so that consumers have to poll."""
        return self._state == "impossible"

    def join(self, topic: str, event: Event) -> None:
        """Set the event whenever the queue may have something, from now on."""
        with self._lock:
            self._sleepers.setdefault(topic, set()).add(event)
            if self._task is None and not self._stopping.is_set():
                self._task = Task("pgq-listener", self._run)

    def leave(self, topic: str, event: Event) -> None:
        """Leave the event alone from now on."""
        with self._lock:
            events = self._sleepers.get(topic, set())
            events.discard(event)
            if not events:
                self._sleepers.pop(topic, None)

    async def stop(self) -> None:
        """Close the connection."""
        self._stopping.set()
        if self._task is not None:
            await self._task.cancel()
            await self._task.join()

    async def _run(self) -> None:
        while not self._stopping.is_set() and not self.impossible:
            try:
                await self._hear(await self._connect())
            except psycopg.Error as error:
                if not is_trouble(error):
                    self._give_up(str(error).strip())
                elif not self._stopping.is_set():
                    log(
                        *("WARNING", "listener_lost", "the listening connection is lost: %s"),
                        reason(error),
                        sqlstate=error.sqlstate,
                    )
            finally:
                if not self.impossible:
                    self._state = "down"
                # Nobody knows what was said meanwhile: everybody has to look.
                self._wake_all()

    async def _connect(self) -> AsyncConnection[Any]:
        async for attempt in AsyncRetrying(**patience(self._stopping, "listening")):
            with attempt:
                return await self._listen()
        raise AssertionError("the last attempt returns or raises")

    async def _listen(self) -> AsyncConnection[Any]:
        conn = await self._client.connection()
        try:
            await conn.execute(_sql.LISTEN)
        except BaseException:
            await conn.close()
            raise
        return conn

    async def _hear(self, conn: AsyncConnection[Any]) -> None:
        token = f"?{uuid4().hex}"
        deadline = time.monotonic() + _PROOF_SECONDS
        try:
            if self._proven:
                self._up()
            else:
                await self._client._rows(_sql.NOTIFY, token)
            while not self._stopping.is_set():
                left = NOTIFY_SECONDS if self._proven else deadline - time.monotonic()
                if left <= 0:
                    self._give_up("a pooler seems to share sessions between transactions")
                    return
                async for heard in conn.notifies(timeout=min(left, NOTIFY_SECONDS)):
                    if heard.payload == token:
                        self._proven = True
                        self._up()
                    else:
                        self._wake(heard.payload)
        finally:
            await conn.close()

    def _up(self) -> None:
        self._state = "up"
        self._wake_all()

    def _give_up(self, why: str) -> None:
        self._state = "impossible"
        log(
            *("WARNING", "listener_impossible", "notifications cannot be had, polling instead: %s"),
            why,
        )

    def _wake(self, topic: str) -> None:
        with self._lock:
            for event in self._sleepers.get(topic, ()):
                event.set()

    def _wake_all(self) -> None:
        with self._lock:
            for events in self._sleepers.values():
                for event in events:
                    event.set()
