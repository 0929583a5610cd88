"""Subscribers: objects that are told about the messages of topics."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from pgq._aio import Lock
from pgq.config import ConsumerConfig
from pgq.consumer_async import AsyncConsumer
from pgq.filters import Filter
from pgq.message import Message

if TYPE_CHECKING:
    from pgq.client_async import AsyncPooledClient

__all__ = ["AsyncSubscriber", "AsyncSubscriptionManager"]


class AsyncSubscriber(Protocol):
    """Whoever wants to be told about messages."""

    @property
    def subscriber_id(self) -> str:
        """The name of the subscriber, and of the queue that keeps what it has not seen yet."""
        ...

    async def on_message(self, message: Message) -> Any:
        """Handle a message; what this raises harms nobody else, and the message is retried."""
        ...


class AsyncSubscriptionManager:
    """Tells subscribers about messages, all of them by one listening connection.

    Each subscriber has a queue of its own, which is filled while nobody listens too; callbacks run
    off the threads that publish and listen. A message that several patterns of a subscriber match
    comes once. With ``durable=False`` the queues are dropped on `close`.
    """

    def __init__(
        self,
        client: AsyncPooledClient,
        config: ConsumerConfig | None = None,
        *,
        durable: bool = True,
    ) -> None:
        self._client = client
        self._config = config or ConsumerConfig(batch_size=10)
        self._durable = durable
        self._lock = Lock()
        self._consumers: dict[str, AsyncConsumer] = {}

    async def subscribe(
        self, pattern: str, subscriber: AsyncSubscriber, filter: Filter = None
    ) -> bool:
        """Tell the subscriber about the topics of a pattern; False if it is told already."""
        name = subscriber.subscriber_id
        async with self._lock:
            added = await self._client.subscribe(name, pattern, filter)
            if name not in self._consumers:
                consumer = AsyncConsumer(self._client, name, subscriber.on_message, self._config)
                self._consumers[name] = await consumer.start()
            return added

    async def unsubscribe(self, pattern: str, subscriber_id: str) -> bool:
        """Tell the subscriber nothing more of a pattern; False if it was not told."""
        async with self._lock:
            return await self._client.unsubscribe(subscriber_id, pattern)

    async def unsubscribe_all(self, subscriber_id: str) -> int:
        """Tell the subscriber nothing more; return how many patterns it had."""
        async with self._lock:
            count = await self._client.unsubscribe_all(subscriber_id)
            await self._end(subscriber_id)
            return count

    @property
    def subscribers(self) -> list[str]:
        """The names of those who are being told."""
        return sorted(self._consumers)

    async def close(self) -> None:
        """Wait for the callbacks that run, and end; subscriptions stay unless told otherwise."""
        async with self._lock:
            for consumer in self._consumers.values():
                consumer.stop()
            for name in list(self._consumers):
                await self._end(name)
                if not self._durable:
                    await self._client.drop_queue(name, force=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _end(self, name: str) -> None:
        consumer = self._consumers.pop(name, None)
        if consumer is not None:
            await consumer.close()
