"""Message queues inside PostgreSQL: thin bindings for the extension pgq."""

from __future__ import annotations

from pgq._files import extension_version
from pgq.batch import Batch
from pgq.batch_async import AsyncBatch
from pgq.breaker import CircuitBreaker
from pgq.client import Client, PooledClient, connect
from pgq.client_async import AsyncClient, AsyncPooledClient, connect_async
from pgq.config import ConsumerConfig, Reject, Retry, TransportConfig
from pgq.consumer import Consumer
from pgq.consumer_async import AsyncConsumer
from pgq.environment import Tally
from pgq.errors import (
    CircuitOpen,
    InvalidFilter,
    LeaseLost,
    NoQueue,
    PgqError,
    PublishFailed,
    QueueExists,
    QueueNotFound,
    RequestTimeout,
)
from pgq.filters import Condition, F, Filter, ago
from pgq.memory import MemoryClient, MemoryTransport
from pgq.message import Draft, Message
from pgq.publisher import Publisher
from pgq.publisher_async import AsyncPublisher
from pgq.subscriber import Subscriber, SubscriptionManager
from pgq.subscriber_async import AsyncSubscriber, AsyncSubscriptionManager
from pgq.transport import Fallback, MultiPublisher, Publishes, Transport
from pgq.transport_async import (
    AsyncFallback,
    AsyncMultiPublisher,
    AsyncPublishes,
    AsyncTransport,
)
from pgq.workers import run_processes

__all__ = [
    "AsyncBatch",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncFallback",
    "AsyncMultiPublisher",
    "AsyncPooledClient",
    "AsyncPublisher",
    "AsyncPublishes",
    "AsyncSubscriber",
    "AsyncSubscriptionManager",
    "AsyncTransport",
    "Batch",
    "CircuitBreaker",
    "CircuitOpen",
    "Client",
    "Condition",
    "Consumer",
    "ConsumerConfig",
    "Draft",
    "F",
    "Fallback",
    "Filter",
    "InvalidFilter",
    "LeaseLost",
    "MemoryClient",
    "MemoryTransport",
    "Message",
    "MultiPublisher",
    "NoQueue",
    "PgqError",
    "PooledClient",
    "PublishFailed",
    "Publisher",
    "Publishes",
    "QueueExists",
    "QueueNotFound",
    "Reject",
    "RequestTimeout",
    "Retry",
    "Subscriber",
    "SubscriptionManager",
    "Tally",
    "Transport",
    "TransportConfig",
    "__version__",
    "ago",
    "connect",
    "connect_async",
    "run_processes",
]

__version__ = extension_version()
