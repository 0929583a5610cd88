"""A publisher that collects messages and publishes them in batches."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psycopg

from pgq._shared import trace
from pgq._shared.aio import ASYNC, Event, Lock, Task
from pgq._shared.arguments import check_client, check_headers
from pgq._shared.log import log, reason
from pgq._shared.transient import is_transient
from pgq.durations import Duration, duration
from pgq.errors import CircuitOpen, PgqError, PublishFailed
from pgq.message import Draft, common_options

if TYPE_CHECKING:
    from pgq._async.client import AsyncClient
    from pgq._async.client_pooled import AsyncPooledClient

__all__ = ["AsyncPublisher", "publish_together"]

# Errors of the server, of values that JSON cannot hold, or of the connection.
_REFUSALS = (psycopg.Error, PgqError, TypeError, ValueError)


class AsyncPublisher:
    """Collects messages and publishes them together, in one transaction.

    It publishes when `size` messages wait, `delay` after the first of them, on `flush` and on
    `close`. Threads or tasks may share a publisher. Messages of one topic with the same options
    keep their order.

    While the database cannot be reached, messages wait. `flush` and `close` raise the error then,
    and so does `publish` when `capacity` messages wait. Messages that the database refuses are
    removed: the next call raises `PublishFailed`, which contains them.

    :param client: the result of `connect_async`.
    :param size: how many messages are published together.
    :param delay: how long the first message of a batch waits for the others.
    :param capacity: how many messages may wait while the database cannot be reached.

    >>> async with AsyncPublisher(client) as publisher:
    ...     for order in orders:
    ...         await publisher.publish("orders", order)
    """

    #: A message may not be published yet when `publish` returns.
    batches = True

    def __init__(
        self,
        client: AsyncPooledClient,
        *,
        size: int = 100,
        delay: Duration = timedelta(seconds=5),
        capacity: int = 10_000,
    ) -> None:
        check_client(client, asynchronous=ASYNC)
        delay = duration(delay, "delay")
        if not 1 <= size <= capacity or size > 100_000 or delay <= timedelta(0):
            raise ValueError("size must be from 1 to 100000 and to capacity, delay more than zero")
        #: How many messages were published, and how many the database has refused.
        self.published = 0
        self.refused = 0
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
        delay: Duration | None = None,
        expires_in: Duration | None = None,
        sender: str | None = None,
        recipient: str | None = None,
        reply_to: str | None = None,
        correlation_id: str | None = None,
        group_key: str | None = None,
        dedup_key: str | None = None,
        deliver_at: datetime | str | None = None,
        serializer: str | None = None,
    ) -> None:
        """Add a message; publish the waiting messages if there are `size` of them.

        The parameters are those of `AsyncClient.publish`.
        """
        check_headers(headers)
        payload, headers = self._client.payloads.prepared(topic, payload, headers, serializer)
        draft = Draft(
            topic=topic,
            payload=payload,
            # The trace of this call, not of the call that flushes.
            headers=trace.inject(headers),
            priority=priority,
            delay=delay,
            expires_in=expires_in,
            sender=sender,
            recipient=recipient,
            reply_to=reply_to,
            correlation_id=correlation_id,
            group_key=group_key,
            dedup_key=dedup_key,
            deliver_at=deliver_at,
        )
        self._surface()
        with self._guard:
            full = self.waiting >= self._capacity
        if full:
            await self.flush()  # raises the error if the database cannot be reached
        with self._guard:
            if self._closed.is_set():
                raise RuntimeError("the publisher is closed")
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting.append(draft)
            # Flush at each multiple of `size`: after an error, do not try with every message.
            enough = len(self._waiting) % self._size == 0
            if self._timer is None:
                self._timer = Task("pgq-publisher", self._run)
            self._started.set()
        if enough:
            await self._try()

    async def publish_now(self, topic: str, payload: Any, **options: Any) -> int:
        """Publish a message now, before the waiting messages, and return its id."""
        return await self._client.publish(topic, payload, **options)

    @property
    def waiting(self) -> int:
        """How many messages are not published yet."""
        return len(self._waiting) + self._in_flight

    async def flush(self) -> int:
        """Publish all waiting messages; return how many, or raise the error."""
        count = await self._flush()
        self._surface()
        return count

    async def close(self) -> None:
        """Publish all waiting messages and close the publisher; raise the error if that fails."""
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
                "WARNING",
                "publish_delayed",
                "%s messages could not be published yet: %s",
                self.waiting,
                reason(error),
                waiting=self.waiting,
            )

    def _surface(self) -> None:
        """Raise `PublishFailed` if messages were refused since the last call."""
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
                    if is_transient(error) or isinstance(error, CircuitOpen):
                        raise
                    return await self._send_apart(drafts)
            except BaseException:
                with self._guard:
                    self._waiting[:0] = drafts
                    self._since = time.monotonic()
                raise
            finally:
                self._in_flight = 0
            self.published += len(drafts)
            log(
                "DEBUG",
                "messages_published",
                "%s messages published",
                len(drafts),
                size=len(drafts),
                duration=round(time.monotonic() - began, 6),
            )
            return len(drafts)

    async def _send_apart(self, drafts: list[Draft]) -> int:
        """Publish the messages of a refused batch one by one; remove each from the list."""
        count = 0
        while drafts:
            try:
                await self._send(drafts[:1])
                count += 1
                self.published += 1
            except _REFUSALS as error:
                if is_transient(error) or isinstance(error, CircuitOpen):
                    raise
                log(
                    "ERROR",
                    "publish_refused",
                    "a message of %s was refused: %s",
                    drafts[0].topic,
                    reason(error),
                    topic=drafts[0].topic,
                    sqlstate=getattr(error, "sqlstate", None),
                )
                with self._guard:
                    self.refused += 1
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
        with self._client.breaker.guard(is_transient):
            await self._send_together(drafts)

    async def _send_together(self, drafts: list[Draft]) -> None:
        """Publish in one transaction, with one statement per topic and set of options."""
        groups: dict[tuple[Any, ...], list[Draft]] = {}
        for draft in drafts:
            groups.setdefault(common_options(draft), []).append(draft)
        async with self._client.transaction() as tx:
            for group in groups.values():
                await publish_together(tx, group)


async def publish_together(client: AsyncClient, group: list[Draft]) -> list[int]:
    """Publish messages that differ only in payload, headers and dedup key; return their ids."""
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
        deliver_at=first.deliver_at,
    )
