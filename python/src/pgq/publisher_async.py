"""Messages published together that were written one by one."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psycopg

from pgq import _trace
from pgq._aio import Event, Lock, Task
from pgq._log import log, reason
from pgq._trouble import is_trouble
from pgq.errors import CircuitOpen, PgqError, PublishFailed
from pgq.message import Draft, common_options

if TYPE_CHECKING:
    from pgq.client_async import AsyncClient, AsyncPooledClient

__all__ = ["AsyncPublisher", "publish_together"]

# What is refused for good, be it by the server or because JSON cannot say it; or trouble.
_REFUSALS = (psycopg.Error, PgqError, TypeError, ValueError)


class AsyncPublisher:
    """Collects messages and publishes them together, in one transaction.

    That happens when `size` messages have come together, `delay` after the first of them, on
    `flush` and on `close`. Any number of threads or tasks may share a publisher. The messages of
    one topic with the same options keep their order.

    While the database cannot be reached the messages are kept; `flush` and `close` raise why, and
    `publish` too when `capacity` messages are waiting. Messages that the database refuses are not
    kept: the next call raises `PublishFailed`, which has them.
    """

    def __init__(
        self,
        client: AsyncPooledClient,
        *,
        size: int = 100,
        delay: timedelta = timedelta(seconds=5),
        capacity: int = 10_000,
    ) -> None:
        if not 1 <= size <= capacity or size > 100_000 or delay <= timedelta(0):
            raise ValueError("size must be from 1 to 100000 and to capacity, delay more than zero")
        self._client = client
        self._size = size
        self._delay = delay.total_seconds()
        self._capacity = capacity
        self._guard = threading.Lock()
        self._sending = Lock()
        self._waiting: list[Draft] = []
        self._refused: list[Draft] = []
        self._why: Exception | None = None
        self._in_flight = 0
        self._since = 0.0
        self._started = Event()
        self._closed = Event()
        self._timer: Task | None = None

    async def publish(
        self,
        topic: str,
        payload: Any,
        *,
        headers: dict[str, Any] | None = None,
        priority: int = 0,
        delay: timedelta | None = None,
        expires_in: timedelta | None = None,
        sender: str | None = None,
        recipient: str | None = None,
        reply_to: str | None = None,
        correlation_id: str | None = None,
        group_key: str | None = None,
        dedup_key: str | None = None,
    ) -> None:
        """Add a message; publish all that wait if they are enough."""
        draft = Draft(
            topic=topic,
            payload=payload,
            # Of the span that publishes, not of the one that happens to flush.
            headers=_trace.inject(headers),
            priority=priority,
            delay=delay,
            expires_in=expires_in,
            sender=sender,
            recipient=recipient,
            reply_to=reply_to,
            correlation_id=correlation_id,
            group_key=group_key,
            dedup_key=dedup_key,
        )
        self._surface()
        with self._guard:
            full = self.waiting >= self._capacity
        if full:
            await self.flush()  # raises why they are still there
        with self._guard:
            if self._closed.is_set():
                raise RuntimeError("the publisher is closed")
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting.append(draft)
            # Once for each size messages: if that fails, not again with every single one.
            enough = len(self._waiting) % self._size == 0
            if self._timer is None:
                self._timer = Task("pgq-publisher", self._run)
            self._started.set()
        if enough:
            await self._try()

    @property
    def waiting(self) -> int:
        """How many messages are not published yet."""
        return len(self._waiting) + self._in_flight

    async def flush(self) -> int:
        """Publish all that wait; return how many, or raise why not."""
        count = await self._flush()
        self._surface()
        return count

    async def close(self) -> None:
        """Publish all that wait, and end; raise if that is impossible."""
        with self._guard:
            self._closed.set()
            self._started.set()
        if self._timer is not None:
            await self._timer.join()
        await self.flush()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _try(self) -> None:
        try:
            await self._flush()
        except Exception as error:
            log(
                *("WARNING", "publish_delayed", "%s messages could not be published yet: %s"),
                *(self.waiting, reason(error)),
                waiting=self.waiting,
            )

    def _surface(self) -> None:
        with self._guard:
            drafts, self._refused = self._refused, []
            why, self._why = self._why, None
        if why is not None:
            raise PublishFailed(why, drafts)

    async def _flush(self) -> int:
        async with self._sending:
            with self._guard:
                drafts, self._waiting = self._waiting, []
                self._in_flight = len(drafts)
            if not drafts:
                return 0
            began = time.monotonic()
            try:
                try:
                    await self._send(drafts)
                except _REFUSALS as error:
                    if is_trouble(error) or isinstance(error, CircuitOpen):
                        raise
                    return await self._send_apart(drafts)
            except BaseException:
                with self._guard:
                    self._waiting[:0] = drafts
                    self._since = time.monotonic()
                raise
            finally:
                self._in_flight = 0
            log(
                *("DEBUG", "messages_published", "%s messages published", len(drafts)),
                size=len(drafts),
                duration=round(time.monotonic() - began, 6),
            )
            return len(drafts)

    async def _send_apart(self, drafts: list[Draft]) -> int:
        """Publish one by one what was refused as a whole; what is done leaves the list."""
        count = 0
        while drafts:
            try:
                await self._send(drafts[:1])
                count += 1
            except _REFUSALS as error:
                if is_trouble(error) or isinstance(error, CircuitOpen):
                    raise
                log(
                    *("ERROR", "publish_refused", "a message of %s was refused: %s"),
                    *(drafts[0].topic, reason(error)),
                    topic=drafts[0].topic,
                    sqlstate=getattr(error, "sqlstate", None),
                )
                with self._guard:
                    self._refused.append(drafts[0])
                    self._why = error
            del drafts[0]
        return count

    async def _run(self) -> None:
        while not self._closed.is_set():
            if not self._waiting:
                self._started.clear()
                if not self._waiting and not self._closed.is_set():
                    await self._started.wait()
                continue
            left = self._since + self._delay - time.monotonic()
            if left > 0:
                await self._closed.wait(left)
            else:
                await self._try()

    async def _send(self, drafts: list[Draft]) -> None:
        with self._client.breaker.guard(is_trouble):
            await self._send_together(drafts)

    async def _send_together(self, drafts: list[Draft]) -> None:
        """Publish in one transaction, with a statement for each topic and set of options."""
        groups: dict[tuple[Any, ...], list[Draft]] = {}
        for draft in drafts:
            groups.setdefault(common_options(draft), []).append(draft)
        async with self._client.transaction() as tx:
            for group in groups.values():
                await publish_together(tx, group)


async def publish_together(client: AsyncClient, group: list[Draft]) -> list[int]:
    """Publish messages that only differ in payload, headers and key; return their ids."""
    first = group[0]
    return await client.publish_batch(
        first.topic,
        [draft.payload for draft in group],
        headers=[draft.headers for draft in group],
        priority=first.priority,
        delay=first.delay,
        expires_in=first.expires_in,
        sender=first.sender,
        recipient=first.recipient,
        reply_to=first.reply_to,
        correlation_id=first.correlation_id,
        group_key=first.group_key,
        dedup_keys=None if first.dedup_key is None else [draft.dedup_key for draft in group],
    )
