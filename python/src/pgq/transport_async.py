"""Publishing to several places, with something to fall back on, and from one configuration."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import psycopg

from pgq._aio import caller
from pgq._log import log, reason
from pgq._trouble import is_trouble
from pgq.batch_async import AsyncBatch
from pgq.breaker import CircuitBreaker
from pgq.client_async import AsyncPooledClient
from pgq.config import TransportConfig
from pgq.consumer_async import AsyncConsumer
from pgq.environment import Tally, places
from pgq.errors import CircuitOpen, PgqError, PublishFailed
from pgq.filters import Filter
from pgq.message import Draft, Message
from pgq.publisher_async import AsyncPublisher

__all__ = ["AsyncFallback", "AsyncMultiPublisher", "AsyncPublishes", "AsyncTransport"]


class AsyncPublishes(Protocol):
    """Whatever takes messages: a client, a publisher, or something of your own."""

    @property
    def publish(self) -> Callable[..., Awaitable[Any]]:
        """Take a topic, a payload and, as keywords, more of what `Draft` has."""
        ...


class AsyncFallback:
    """Publishes to a transport, and hands what cannot be published now to something else.

    The fallback is called with the message and the reason: the transport's trouble, or
    `CircuitOpen` while the transport is being left alone. What a database refuses for good (no such
    queue, wrong headers) is raised, because no fallback can cure it.

    :param breaker: for a transport that has none of its own; a client has one.
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
        """Publish a message; return what the transport or the fallback returns."""
        guard = nullcontext() if self._breaker is None else self._breaker.guard(_is_failure)
        try:
            with guard:
                return await self._transport.publish(topic, payload, headers=headers, **options)
        except Exception as error:
            if _is_refusal(error):
                raise
            draft = Draft(topic=topic, payload=payload, headers=headers, **options)
            return await self._fallback(draft, error)


class AsyncMultiPublisher:
    """Publishes each message to all transports.

    One that fails is logged, counted, and does not stop the others. `PublishFailed` is raised if
    all fail, or one that is required. Transports can be added and removed at any time.

    :param required: those of the transports without which a message is not published.
    """

    def __init__(
        self,
        transports: AsyncPublishes | Sequence[AsyncPublishes],
        *,
        required: Sequence[AsyncPublishes] = (),
    ) -> None:
        several = transports if isinstance(transports, Sequence) else [transports]
        self._lock = threading.Lock()
        self._opened: list[Any] = []
        #: For each transport, how many messages it has taken and how often it has failed.
        self.tallies: list[Tally] = []
        for transport in several:
            self.add(transport, required=any(transport is other for other in required))
        if len(required) != sum(tally.required for tally in self.tallies):
            raise ValueError("what is required has to be among the transports")

    @classmethod
    async def configured(
        cls, environment: str | None = None, path: str | Path | None = None
    ) -> Self:
        """Return one with the transports of an environment; see `pgq.environment.places`."""
        publisher = cls([])
        try:
            for place in places(environment, path):
                transport: Any
                if place.config is None:
                    transport = place.open()
                    publisher._opened.append(transport)
                else:
                    transport = AsyncTransport(place.config)
                    publisher._opened.append(transport)
                    # What may fail later may be away now.
                    await transport.connect(wait=place.required)
                publisher.add(transport, required=place.required)
        except BaseException:
            await publisher.close()
            raise
        return publisher

    def add(self, transport: AsyncPublishes, *, required: bool = False) -> None:
        """Publish to this one too, from now on."""
        with self._lock:
            self.tallies = [*self.tallies, Tally(transport, required)]

    def remove(self, transport: AsyncPublishes) -> None:
        """Leave this one alone from now on."""
        with self._lock:
            self.tallies = [tally for tally in self.tallies if tally.transport is not transport]

    async def publish(
        self, topic: str, payload: Any, *, headers: dict[str, Any] | None = None, **options: Any
    ) -> list[Any]:
        """Publish a message; return what each transport returns, or the exception it raised."""
        results: list[Any] = []
        missed: Exception | None = None
        for tally in self.tallies:
            try:
                publish = caller(tally.transport.publish)
                results.append(await publish(topic, payload, headers=headers, **options))
            except Exception as error:
                log(
                    *("ERROR", "transport_failed", "publishing to %s failed: %s"),
                    *(type(tally.transport).__name__, reason(error)),
                    topic=topic,
                    transport=type(tally.transport).__name__,
                )
                results.append(error)
                with self._lock:
                    tally.failed += 1
                    tally.error = error
                missed = error if tally.required else missed
            else:
                with self._lock:
                    tally.published += 1
        errors = [result for result in results if isinstance(result, Exception)]
        if len(errors) == len(results):
            missed = errors[-1] if errors else LookupError("no transport")
        if missed is not None:
            draft = Draft(topic=topic, payload=payload, headers=headers, **options)
            raise PublishFailed(missed, [draft])
        return results

    async def close(self) -> None:
        """Publish what waits, and close what `configured` has opened."""
        opened, self._opened = self._opened, []
        for transport in opened:
            try:
                if isinstance(transport, AsyncTransport):
                    await transport.disconnect()
                else:
                    transport.close()
            except Exception as error:
                log(
                    *("ERROR", "transport_not_closed", "closing %s failed: %s"),
                    *(type(transport).__name__, reason(error)),
                    transport=type(transport).__name__,
                )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncTransport:
    """A client, a publisher and consumers that follow one `TransportConfig`."""

    def __init__(self, config: TransportConfig | None = None, **options: Any) -> None:
        self.config = TransportConfig.of(config, **options)
        self.client = AsyncPooledClient(
            self.config.database_url, pool_size=self.config.connection_pool_size
        )
        self._publisher: AsyncPublisher | None = None

    async def connect(self, *, wait: bool = True) -> Self:
        """Connect, or begin to."""
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
        """Publish what waits, and close all connections."""
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

    async def create_queue(self, name: str, **options: Any) -> bool:
        """Create a queue with the policy of the configuration."""
        return await self.client.create_queue(name, **self.config.policy() | options)

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
        """Publish now and return the id, or with batching soon."""
        if delay is not None and not self.config.enable_delayed_processing:
            raise ValueError("the configuration has no delayed processing")
        target = self.client if self._publisher is None else self._publisher
        return await target.publish(
            topic,
            payload,
            headers=headers,
            priority=self.config.default_priority if priority is None else priority,
            delay=delay,
            **options,
        )

    async def flush(self) -> int:
        """Publish what waits; return how many."""
        return 0 if self._publisher is None else await self._publisher.flush()

    async def retrieve(self, topic: str, filter: Filter = None, n: int | None = None) -> AsyncBatch:
        """Claim up to n messages, or as many as the configuration allows."""
        self._check(filter)
        return await self.client.claim(topic, filter, n or self.config.retrieval_limit)

    def consumer(
        self, topic: str, handler: Callable[[Message], Any], filter: Filter = None, **options: Any
    ) -> AsyncConsumer:
        """Return a consumer that claims as many as the configuration allows."""
        self._check(filter)
        options = {"batch_size": self.config.retrieval_limit} | options
        return AsyncConsumer(self.client, topic, handler, filter=filter, **options)

    def _check(self, filter: Filter) -> None:
        if filter is not None and not self.config.enable_content_routing:
            raise ValueError("the configuration has no content routing")


def _is_failure(error: Exception) -> bool:
    return not isinstance(error, CircuitOpen) and not _is_refusal(error)


def _is_refusal(error: Exception) -> bool:
    if isinstance(error, PgqError):
        return not isinstance(error, CircuitOpen)
    return isinstance(error, psycopg.Error) and not is_trouble(error)
