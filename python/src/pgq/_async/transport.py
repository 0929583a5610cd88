"""Transports: a fallback for errors, and a client from one configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Protocol, Self, Unpack

import psycopg

from pgq._async.batch import AsyncBatch
from pgq._async.client_pooled import AsyncPooledClient
from pgq._async.consumer import AsyncConsumer
from pgq._async.publisher import AsyncPublisher
from pgq._shared.aio import caller
from pgq._shared.transient import is_transient
from pgq.errors import CircuitOpen, PgqError
from pgq.filters import Filter
from pgq.message import Draft, Message
from pgq.options import QueuePolicy, StreamOptions
from pgq.transports.breaker import CircuitBreaker
from pgq.transports.config import TransportConfig
from pgq.transports.registry import is_database, open_transport

__all__ = ["AsyncFallback", "AsyncPublishes", "AsyncTransport", "create_transport_async"]


class AsyncPublishes(Protocol):
    """An object with a method `publish`: a client, a publisher, or your own.

    >>> class Printer:
    ...     async def publish(self, topic, payload, **options):
    ...         print(topic, payload)
    """

    @property
    def publish(self) -> Callable[..., Awaitable[Any]]:
        """Take a topic, a payload and, as keywords, other fields of `Draft`."""
        ...


class AsyncFallback:
    """Publishes to a transport, and calls a fallback if that fails with a transient error.

    The fallback is called with the message and the error: a transient error of the transport, or
    `CircuitOpen`. Permanent errors (no such queue, wrong headers) are raised: a fallback would not
    cure them.

    :param transport: an object with a method `publish`.
    :param fallback: is called as ``fallback(draft, error)``.
    :param breaker: a circuit breaker for a transport without its own; a client has one.

    >>> fallback = AsyncFallback(client, lambda draft, error: lines.append(draft))
    >>> await fallback.publish("orders", {"amount": 12})
    """

    def __init__(
        self,
        transport: AsyncPublishes,
        fallback: Callable[[Draft, Exception], Any],
        *,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        self._transport = transport
        self._fallback = caller(fallback)
        self._breaker = breaker

    async def publish(
        self, topic: str, payload: Any, *, headers: dict[str, Any] | None = None, **options: Any
    ) -> Any:
        """Publish a message; return the result of the transport or of the fallback."""
        guard = nullcontext() if self._breaker is None else self._breaker.guard(_is_failure)
        try:
            with guard:
                return await self._transport.publish(topic, payload, headers=headers, **options)
        except Exception as error:
            if _is_refusal(error):
                raise
            draft = Draft(topic=topic, payload=payload, headers=headers, **options)
            return await self._fallback(draft, error)


class AsyncTransport:
    """A client, a publisher and consumers that follow one `TransportConfig`.

    :param config: the options; None for the defaults.
    :param options: single options of `TransportConfig`, which have precedence.

    >>> async with AsyncTransport(database_url="postgresql://app@db/shop") as transport:
    ...     await transport.publish("orders", {"amount": 12})
    """

    def __init__(self, config: TransportConfig | str | None = None, **options: Any) -> None:
        self.config = TransportConfig.of(config, **options)
        self.client = AsyncPooledClient(
            self.config.database_url, pool_size=self.config.connection_pool_size
        )
        self._publisher: AsyncPublisher | None = None

    async def connect(self, *, wait: bool = True) -> Self:
        """Connect; without `wait`, only begin to connect."""
        await self.client.open(wait=wait)
        if self.config.enable_batching:
            self._publisher = AsyncPublisher(
                self.client, size=self.config.batch_size, delay=self.config.batch_timeout
            )
        return self

    async def connected(self) -> bool:
        """Whether the database answers."""
        return await self.client.connected()

    async def disconnect(self) -> None:
        """Publish waiting messages, and close all connections."""
        try:
            if self._publisher is not None:
                await self._publisher.close()
        finally:
            await self.client.close()

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.disconnect()

    async def create_queue(self, queue: str, **options: Unpack[QueuePolicy]) -> bool:
        """Create a queue with the policy of the configuration; `options` override it."""
        return await self.client.create_queue(queue, **self.config.policy() | options)

    async def publish(
        self,
        topic: str,
        payload: Any,
        *,
        headers: dict[str, Any] | None = None,
        priority: int | None = None,
        delay: timedelta | None = None,
        **options: Any,
    ) -> int | None:
        """Publish a message and return its id; with batching, publish later and return None."""
        options |= self._options(priority, delay, options.get("deliver_at"))
        if self._publisher is None:
            return await self.client.publish(topic, payload, headers=headers, **options)
        await self._publisher.publish(topic, payload, headers=headers, **options)
        return None

    async def publish_now(
        self,
        topic: str,
        payload: Any,
        *,
        headers: dict[str, Any] | None = None,
        priority: int | None = None,
        delay: timedelta | None = None,
        **options: Any,
    ) -> int:
        """Publish a message now, before the waiting messages, and return its id."""
        options |= self._options(priority, delay, options.get("deliver_at"))
        return await self.client.publish(topic, payload, headers=headers, **options)

    def _options(
        self, priority: int | None, delay: timedelta | None, deliver_at: datetime | str | None
    ) -> dict[str, Any]:
        later = delay is not None or deliver_at is not None
        if later and not self.config.enable_delayed_processing:
            raise ValueError("the configuration has no delayed processing")
        usual = self.config.default_priority
        return {"priority": usual if priority is None else priority, "delay": delay}

    @property
    def batches(self) -> bool:
        """Whether messages are collected and published in batches."""
        return self._publisher is not None

    @property
    def published(self) -> int:
        """How many messages were published in batches."""
        return 0 if self._publisher is None else self._publisher.published

    @property
    def refused(self) -> int:
        """How many messages of batches the database has refused."""
        return 0 if self._publisher is None else self._publisher.refused

    @property
    def waiting(self) -> int:
        """How many messages are not published yet."""
        return 0 if self._publisher is None else self._publisher.waiting

    async def flush(self) -> int:
        """Publish waiting messages; return how many."""
        return 0 if self._publisher is None else await self._publisher.flush()

    async def retrieve(self, topic: str, filter: Filter = None, n: int | None = None) -> AsyncBatch:
        """Claim up to n messages; None for the `retrieval_limit` of the configuration."""
        self._check(filter)
        most = self.config.retrieval_limit if n is None else n
        return await self.client.claim(topic, filter, most)

    def consumer(
        self,
        topic: str,
        handler: Callable[[Message], Any],
        filter: Filter = None,
        **options: Unpack[StreamOptions],
    ) -> AsyncConsumer:
        """Return a consumer; its default batch size is the configured `retrieval_limit`."""
        self._check(filter)
        options.setdefault("batch_size", self.config.retrieval_limit)
        return AsyncConsumer(self.client, topic, handler, filter=filter, **options)

    def _check(self, filter: Filter) -> None:
        if filter is not None and not self.config.enable_content_routing:
            raise ValueError("the configuration has no content routing")


def create_transport_async(name: str, **options: Any) -> Any:
    """Return a transport by its name or address, to be used in a ``with`` block.

    :param name: ``database`` (options: those of `TransportConfig`), ``memory``, an address such as
        ``redis://HOST/0``, ``file:///DIRECTORY`` or ``postgresql://...``, or the name or address of
        a transport that `register_transport` has added.
    :param options: of the transport.

    >>> async with create_transport_async("database", batch_size=50) as transport:
    ...     await transport.publish("orders", {"amount": 12})
    """
    if not is_database(name):
        return open_transport(name, **options)
    if ":" in name:
        options = {"database_url": name, **options}
    return AsyncTransport(**options)


def _is_failure(error: Exception) -> bool:
    return not isinstance(error, CircuitOpen) and not _is_refusal(error)


def _is_refusal(error: Exception) -> bool:
    if isinstance(error, PgqError):
        return not isinstance(error, CircuitOpen)
    return isinstance(error, psycopg.Error) and not is_transient(error)
