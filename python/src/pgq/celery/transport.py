"""A transport of kombu: queues, leases, priorities, delays and subscriptions of pgq.

====================  ============================================================================
kombu                 pgq
====================  ============================================================================
queue                 queue
exchange, binding     a topic for each routing key of the exchange, and a subscription
publish               publish; a message that no queue receives is dropped, as in AMQP
priority, ETA         priority, delay; ``expiration`` is expires_in
get                   claim for ``visibility_timeout``, renewed while the message is held
ack                   ack; a stale lease is a warning: another worker runs the task
reject, requeue       bury: a dead letter; release
purge, delete         purge, drop_queue
====================  ============================================================================
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from queue import Empty
from typing import Any
from urllib.parse import quote

import psycopg
from kombu.transport import virtual

import pgq
from pgq._shared import sql
from pgq._shared.log import log
from pgq.celery._url import dsn

__all__ = ["Channel", "QoS", "Transport"]

_PREFIX = "kombu"
# How long a process stays registered as a listener.
_WAIT = timedelta(seconds=30)


def word(text: str) -> str:
    """Return a text as one word of a topic: special characters are percent-encoded."""
    return re.sub(r"[.*#\s%]", lambda c: quote(c[0]).replace(".", "%2E").replace("*", "%2A"), text)


def topic_of(exchange: str, kind: str, routing_key: str) -> str:
    """Return the topic, or the topic pattern, for a routing key of an exchange."""
    if kind == "fanout":
        return f"{_PREFIX}.{word(exchange)}"
    if kind == "topic":
        key = ".".join(
            part if part in ("*", "#") else word(part) for part in routing_key.split(".")
        )
    else:
        key = word(routing_key)
    return f"{_PREFIX}.{word(exchange)}.{key or '%'}"


class QoS(virtual.QoS):
    """Ends messages in the database; a delivery tag is the lease id and the message id."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message."""
        self.channel.end(delivery_tag, "ack")
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Release a message, or make it a dead letter."""
        self.channel.end(delivery_tag, "release" if requeue else "bury")
        self._quick_ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        """Release the messages that are not acknowledged."""
        self._flush()
        while self._delivered:
            tag, _ = self._delivered.popitem()
            self.channel.end(tag, "release")
        return []


class Channel(virtual.Channel):
    """A channel of kombu."""

    QoS = QoS
    supports_fanout = True
    #: The lease duration in seconds. Leases are extended while a message is held, so this is the
    #: time after which other workers get the messages of a dead one.
    visibility_timeout = 60
    #: The number of deliveries before a message becomes a dead letter.
    max_attempts = 20
    from_transport_options = (
        *virtual.Channel.from_transport_options,
        "visibility_timeout",
        "max_attempts",
    )

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._client: pgq.PooledClient = connection.pgq_client
        self._unacked: Callable[..., Any] = connection.leases.__setitem__
        self._automatic: set[str] = set()
        self._temporary: set[str] = set()
        self._made: set[str] = set()

    # Queues and exchanges

    def _new_queue(self, queue: str, auto_delete: bool = False, **kwargs: Any) -> None:
        if queue in self._made:
            return
        with suppress(pgq.QueueExists):
            self._client.create_queue(
                word_of_queue(queue),
                lease=timedelta(seconds=self.visibility_timeout),
                max_attempts=self.max_attempts,
                on_expiry="discard",
            )
        self._made.add(queue)
        if auto_delete:
            self._temporary.add(queue)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return word_of_queue(queue) in self._client.queue_names()

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        self._new_queue(queue)
        kind = self.typeof(exchange).type
        self._client.subscribe(word_of_queue(queue), topic_of(exchange, kind, routing_key))

    def queue_unbind(
        self, queue: str, exchange: str = "", routing_key: str = "", *args: Any, **kwargs: Any
    ) -> None:
        """End a binding."""
        super().queue_unbind(queue, exchange, routing_key, *args, **kwargs)
        kind = self.typeof(exchange).type
        self._client.unsubscribe(word_of_queue(queue), topic_of(exchange, kind, routing_key))

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any
    ) -> None:
        """Drop a queue."""
        if if_empty and self._size(queue):
            return
        self.state.queue_bindings_delete(queue)
        self._delete(queue)

    def _delete(self, queue: str, *args: Any, **kwargs: Any) -> None:
        self._made.discard(queue)
        self._temporary.discard(queue)
        with suppress(pgq.QueueNotFound):
            self._client.drop_queue(word_of_queue(queue), force=True)

    def _size(self, queue: str) -> int:
        try:
            return int(self._client.fetch_value(int, sql.BACKLOG, *[word_of_queue(queue)] * 2))
        except pgq.QueueNotFound:
            return 0

    def _purge(self, queue: str) -> int:
        try:
            return int(self._client.purge(word_of_queue(queue)))
        except pgq.QueueNotFound:
            return 0

    def basic_cancel(self, consumer_tag: str) -> None:
        """End a consumer; drop its queue if the queue is temporary."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue in self._temporary:
            self._delete(queue)

    # Publishing

    def basic_publish(self, message: Any, exchange: str, routing_key: str, **kwargs: Any) -> None:
        """Publish a message by its routing key; without an exchange, to the queue of that name."""
        self._inplace_augment_message(message, exchange, routing_key)
        if exchange:
            self._put(topic_of(exchange, self.typeof(exchange).type, routing_key), message)
        else:
            self._put(word_of_queue(routing_key), message)

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        headers, properties = message.get("headers") or {}, message["properties"]
        lifetime = properties.get("expiration")
        with suppress(pgq.NoQueue):
            self._client.publish(
                queue,
                message,
                headers={
                    name: headers[name]
                    for name in ("task", "id")
                    if isinstance(headers.get(name), str)
                },
                priority=self._get_message_priority(message),
                delay=delay_of(headers.get("eta")),
                expires_in=None if lifetime is None else int(lifetime) / 1000,
            )

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str | None]:
        """Leave text unencoded, so that people and filters can read it."""
        return (body, "utf-8") if isinstance(body, str) else super().encode_body(body, encoding)

    # Consuming

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **kwargs: Any
    ) -> None:
        """Consume a queue; with `no_ack` a message is acknowledged when it is delivered."""
        (self._automatic.add if no_ack else self._automatic.discard)(queue)
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        self.connection.listen(word_of_queue(queue))

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """Return the next message, or None."""
        message = super().basic_get(queue, no_ack, **kwargs)
        if message is not None and no_ack and queue not in self._automatic:
            self.end(message.delivery_tag, "ack")
        return message

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        try:
            claimed = self._client.claim(
                word_of_queue(queue), lease=timedelta(seconds=self.visibility_timeout)
            )
        except pgq.QueueNotFound:
            raise Empty from None
        if not claimed:
            raise Empty
        [message] = claimed
        body: dict[str, Any] = message.payload
        body["properties"]["delivery_tag"] = tag = f"{message.lease_id}:{message.id}"
        if message.attempt > 1:
            body["properties"]["delivery_info"]["redelivered"] = True
        if queue in self._automatic:
            self._client.ack(message.lease_id)
        else:
            self._unacked(tag, (message.lease_id, self.visibility_timeout))
        return body

    def end(self, tag: str, how: str) -> None:
        """Acknowledge, release or bury a message."""
        transport = self.connection
        if transport is None or transport.leases.pop(tag, None) is None:
            return
        lease_id, id = map(int, tag.split(":"))
        try:
            getattr(self._client, how)(lease_id, [id])
        except pgq.LeaseLost:
            log("WARNING", "lease_lost", "message %s was given to another worker", id)

    def after_reply_message_received(self, queue: str) -> None:
        """Keep the queue of replies: `basic_cancel` drops it."""

    def close(self) -> None:
        """Release messages that are not acknowledged, and drop temporary queues."""
        temporary = set(self._temporary)
        super().close()
        for queue in temporary:
            self._delete(queue)


def word_of_queue(queue: str) -> str:
    """Return a valid name for a queue: special characters are percent-encoded."""
    return re.sub(r"[*#\s%]", lambda c: quote(c[0]).replace("*", "%2A"), queue)


def delay_of(eta: str | None) -> timedelta | None:
    """Return the delay of a task with an ETA: workers get the task when it is due."""
    if eta is None:
        return None
    moment = datetime.fromisoformat(eta)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(moment - datetime.now(UTC), timedelta(0))


class Transport(virtual.Transport):
    """The transport ``pgq://``."""

    Channel = Channel
    can_parse_url = True
    driver_type = "pgq"
    driver_name = "pgq"
    #: Seconds between two polls; a notification ends the sleep earlier.
    polling_interval = 1.0
    connection_errors = (*virtual.Transport.connection_errors, psycopg.OperationalError)
    channel_errors = (*virtual.Transport.channel_errors, psycopg.DatabaseError, pgq.PgqError)
    implements = virtual.Transport.implements.extend(
        exchange_type=frozenset(["direct", "topic", "fanout"])
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        #: The messages that this process holds: delivery tag -> lease id and lease duration.
        self.leases: dict[str, tuple[int, float]] = {}
        self._pgq: pgq.PooledClient | None = None
        self._woken = threading.Event()
        self._over = threading.Event()
        self._waiter = f"kombu {id(self)}"

    def driver_version(self) -> str:
        """Return the version of the client."""
        return pgq.__version__

    @property
    def pgq_client(self) -> pgq.PooledClient:
        """The client of all channels. The first use connects, and starts to extend leases."""
        if self._pgq is None:
            self._pgq = pgq.connect(dsn(self.client.hostname or ""))
            self._over.clear()
            threading.Thread(target=self._renew, name="pgq-kombu", daemon=True).start()
        return self._pgq

    def close_connection(self, connection: Any) -> None:
        """Close all channels and the client."""
        try:
            super().close_connection(connection)
        finally:
            self._over.set()
            client, self._pgq = self._pgq, None
            if client is not None:
                client.close()

    def listen(self, queue: str) -> None:
        """Listen for notifications of a queue."""
        client = self.pgq_client
        with suppress(pgq.QueueNotFound):
            client.listener.join(client.channel(queue), self._woken)

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver the next message; sleep until there is one."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._woken.clear()
            with suppress(Empty):
                self.cycle.get(self._deliver, timeout=timeout)
                return
            left = self.polling_interval
            if deadline is not None:
                left = min(left, deadline - time.monotonic())
                if left <= 0:
                    raise TimeoutError
            # kombu has no public name for the queues that a channel consumes.
            active = (channel._active_queues for channel in self.channels)  # noqa: SLF001
            self._register({queue for queues in active for queue in queues})
            self._woken.wait(left)

    def _register(self, queues: Iterable[str]) -> None:
        """Register this process as a listener of the queues, so that publishers notify it."""
        for queue in queues:
            with suppress(pgq.PgqError):
                self.pgq_client.wait_begin(word_of_queue(queue), self._waiter, _WAIT)

    def _renew(self) -> None:
        """Extend the leases of held messages, at least three times in a lease duration."""
        while not self._over.wait(self._pause()):
            for lease_id, seconds in set(self.leases.values()):
                client = self._pgq
                if client is None:
                    return
                with suppress(pgq.PgqError, psycopg.Error):
                    client.extend(lease_id, timedelta(seconds=seconds))

    def _pause(self) -> float:
        held = [seconds for _, seconds in list(self.leases.values())]
        return min([*held, Channel.visibility_timeout, 3.0]) / 3
