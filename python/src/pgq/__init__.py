"""Message queues inside PostgreSQL: thin bindings for the extension pgq."""

from __future__ import annotations

from pgq._async.batch import AsyncBatch
from pgq._async.client import AsyncClient
from pgq._async.client_pooled import AsyncPooledClient, connect_async
from pgq._async.consumer import AsyncConsumer
from pgq._async.group import AsyncConsumerGroup
from pgq._async.multi_publisher import AsyncMultiPublisher
from pgq._async.publisher import AsyncPublisher
from pgq._async.subscriber import AsyncSubscriber, AsyncSubscriptionManager
from pgq._async.transport import (
    AsyncFallback,
    AsyncPublishes,
    AsyncTransport,
    create_transport_async,
)
from pgq._shared.extension_files import extension_version
from pgq._sync.batch import Batch
from pgq._sync.client import Client
from pgq._sync.client_pooled import PooledClient, connect
from pgq._sync.consumer import Consumer
from pgq._sync.group import ConsumerGroup
from pgq._sync.multi_publisher import MultiPublisher
from pgq._sync.publisher import Publisher
from pgq._sync.subscriber import Subscriber, SubscriptionManager
from pgq._sync.transport import Fallback, Publishes, Transport, create_transport
from pgq.consumers.config import ConsumerConfig, Reject, Retry
from pgq.consumers.processes import run_processes
from pgq.errors import (
    CircuitOpen,
    HandlerTimeout,
    InvalidFilter,
    LeaseLost,
    NoQueue,
    NotInstalled,
    PayloadError,
    PgqError,
    PublishFailed,
    QueueExists,
    QueueNotFound,
    Refused,
    RequestTimeout,
)
from pgq.filters import Condition, F, Filter, ago
from pgq.message import Draft, Message
from pgq.payloads.serializers import Serializer, register_serializer, unregister_serializer
from pgq.payloads.typed import payload_as
from pgq.transports.breaker import CircuitBreaker
from pgq.transports.config import TransportConfig
from pgq.transports.counters import Counters
from pgq.transports.memory import MemoryClient, MemoryTransport
from pgq.transports.registry import register_transport, unregister_transport

__all__ = [
    "AsyncBatch",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncConsumerGroup",
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
    "ConsumerGroup",
    "Counters",
    "Draft",
    "F",
    "Fallback",
    "Filter",
    "HandlerTimeout",
    "InvalidFilter",
    "LeaseLost",
    "MemoryClient",
    "MemoryTransport",
    "Message",
    "MultiPublisher",
    "NoQueue",
    "NotInstalled",
    "PayloadError",
    "PgqError",
    "PooledClient",
    "PublishFailed",
    "Publisher",
    "Publishes",
    "QueueExists",
    "QueueNotFound",
    "Refused",
    "Reject",
    "RequestTimeout",
    "Retry",
    "Serializer",
    "Subscriber",
    "SubscriptionManager",
    "Transport",
    "TransportConfig",
    "__version__",
    "ago",
    "connect",
    "connect_async",
    "create_transport",
    "create_transport_async",
    "payload_as",
    "register_serializer",
    "register_transport",
    "run_processes",
    "unregister_serializer",
    "unregister_transport",
]

__version__ = extension_version()
