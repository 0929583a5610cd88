"""One connection that listens for notifications, for all consumers of a client."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier
from tenacity import AsyncRetrying

from pgq._shared import sql
from pgq._shared.aio import NOTIFY_SECONDS, Event, Task
from pgq._shared.log import log, reason
from pgq._shared.transient import is_transient, retry_options

if TYPE_CHECKING:
    from pgq._async.client_pooled import AsyncPooledClient

__all__ = ["RESULTS", "AsyncListener"]

#: The channel that announces the end of a message to `wait`; the payload is the message id.
RESULTS = "pgq_result"

# How long to wait for the test notification. A pooler that shares sessions delivers none.
_PROOF_SECONDS = 3.0


class AsyncListener:
    """Listens to the channels of queues and wakes sleeping consumers.

    The listener also has a channel of its own. The first notification on it is a test: a pooler in
    transaction mode accepts LISTEN and delivers nothing. Later notifications on it wake the
    connection when a consumer has joined, so that it listens to the new channel.
    """

    def __init__(self, client: AsyncPooledClient) -> None:
        self._client = client
        self._state: Literal["down", "up", "impossible"] = "down"
        self._proven = False
        self._lock = threading.Lock()
        self._own = f"pgq_{uuid4().hex}"
        self._heard: set[str] = set()
        self._sleepers: dict[tuple[str, str], set[Event]] = {}
        self._stopping = Event()
        self._task: Task | None = None

    def hears(self, channel: str) -> bool:
        """Whether notifications of the channel arrive now."""
        with self._lock:
            return self._state == "up" and channel in self._heard

    @property
    def impossible(self) -> bool:
        """Whether LISTEN does not work here, so that consumers have to poll."""
        return self._state == "impossible"

    async def join(self, channel: str, event: Event, payload: str = "") -> None:
        """Set the event when LISTEN takes effect, and then at each notification."""
        with self._lock:
            self._sleepers.setdefault((channel, payload), set()).add(event)
            over = self.impossible or self._stopping.is_set()
            waits = self._task is not None and not over and channel not in self._heard
            if self._task is None and not over:
                self._task = Task("pgq-listener", self._run)
        if waits:
            await self._client.fetch_rows(sql.NOTIFY, self._own)

    def leave(self, channel: str, event: Event, payload: str = "") -> None:
        """Stop setting the event. UNLISTEN follows after the next notification of any channel."""
        with self._lock:
            events = self._sleepers.get((channel, payload), set())
            events.discard(event)
            if not events:
                self._sleepers.pop((channel, payload), None)

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
                if not is_transient(error):
                    self._give_up(str(error).strip())
                elif not self._stopping.is_set():
                    log(
                        "WARNING",
                        "listener_lost",
                        "the listening connection is lost: %s",
                        reason(error),
                        sqlstate=error.sqlstate,
                    )
            finally:
                with self._lock:
                    self._heard.clear()
                    if not self.impossible:
                        self._state = "down"
                # Notifications may have been missed: wake all consumers.
                self._wake_all()

    async def _connect(self) -> AsyncConnection[Any]:
        async for attempt in AsyncRetrying(**retry_options(self._stopping, "listening")):
            with attempt:
                return await self._listen()
        raise AssertionError("the last attempt returns or raises")

    async def _listen(self) -> AsyncConnection[Any]:
        conn = await self._client.connection()
        try:
            await self._follow(conn)
        except BaseException:
            await conn.close()
            raise
        return conn

    async def _hear(self, conn: AsyncConnection[Any]) -> None:
        deadline = time.monotonic() + _PROOF_SECONDS
        try:
            if self._proven:
                self._up()
            else:
                await self._client.fetch_rows(sql.NOTIFY, self._own)
            while not self._stopping.is_set():
                left = NOTIFY_SECONDS if self._proven else deadline - time.monotonic()
                if left <= 0:
                    self._give_up("a pooler seems to share sessions between transactions")
                    return
                # Take one notification, and all that arrived with it.
                async for heard in conn.notifies(timeout=min(left, NOTIFY_SECONDS), stop_after=1):
                    if heard.channel != self._own:
                        self._wake(heard.channel, heard.payload)
                    elif not self._proven:
                        self._proven = True
                        self._up()
                await self._follow(conn)
        finally:
            await conn.close()

    async def _follow(self, conn: AsyncConnection[Any]) -> None:
        """Run LISTEN and UNLISTEN, so that exactly the channels of sleepers are heard."""
        with self._lock:
            wanted = {self._own, *(channel for channel, _ in self._sleepers)}
            new, old = wanted - self._heard, self._heard - wanted
            self._heard -= old
        if new or old:
            listen, unlisten = SQL(sql.LISTEN), SQL(sql.UNLISTEN)
            await conn.execute(
                SQL("; ").join(
                    [listen.format(Identifier(name)) for name in sorted(new)]
                    + [unlisten.format(Identifier(name)) for name in sorted(old)]
                )
            )
            with self._lock:
                self._heard |= new
            # Notifications before LISTEN were missed: wake the consumers, so that they claim.
            self._wake_all(new)

    def _up(self) -> None:
        self._state = "up"
        self._wake_all()

    def _give_up(self, why: str) -> None:
        self._state = "impossible"
        log(
            "WARNING",
            "listener_impossible",
            "notifications do not work here, polling instead: %s",
            why,
        )

    def _wake(self, channel: str, payload: str) -> None:
        with self._lock:
            for event in self._sleepers.get((channel, payload), ()):
                event.set()

    def _wake_all(self, channels: set[str] | None = None) -> None:
        with self._lock:
            for (channel, _), events in self._sleepers.items():
                if channels is None or channel in channels:
                    for event in events:
                        event.set()
