"""A trigger that claims messages by filter; they are acknowledged when their event is recorded."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Hashable, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

try:
    from airflow.triggers.shared_stream import SharedStreamProducer
except ImportError:  # before Airflow 3.3
    SharedStreamProducer = object

import pgq
from pgq._shared.aio import Event

__all__ = ["PgqTrigger", "Producer"]

_IDLE = timedelta(seconds=60)


class PgqTrigger(BaseEventTrigger):
    """Fires an event for each batch of messages that match a filter.

    Messages that do not match stay in the queue for the triggers of other assets. With Airflow 3.3
    or later, the triggerer reports that an event is in its database, and only then are the messages
    acknowledged. If an event is not recorded, its messages are delivered again when the lease has
    expired. Before 3.3, or in a task that defers, the messages are acknowledged `settle` seconds
    after the event.

    :param topic: the name of the queue.
    :param filter: the messages to claim; None for all.
    :param n: the maximum number of messages of one event.
    :param conn_id: a connection of Airflow; if None, ``PGQ_DSN`` or the ``PG*`` variables of libpq.
    :param lease: the lease duration in seconds: messages whose event was not recorded are delivered
        again after this time. Must be longer than Airflow's ``shared_stream_ack_timeout``.
    :param poll_interval: seconds between two claims at most; a notification ends the wait earlier.
    :param settle: seconds from an event to its acknowledgement, where Airflow reports nothing.

    >>> PgqTrigger(topic="orders", filter={"type": "paid"}, n=10)
    """

    def __init__(
        self,
        *,
        topic: str,
        filter: dict[str, Any] | None = None,
        n: int = 1,
        conn_id: str | None = None,
        lease: float = 600.0,
        poll_interval: float = 5.0,
        settle: float = 30.0,
    ) -> None:
        super().__init__()
        self.arguments: dict[str, Any] = {
            "topic": topic,
            "filter": filter,
            "n": n,
            "conn_id": conn_id,
            "lease": lease,
            "poll_interval": poll_interval,
            "settle": settle,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments, from which Airflow creates this trigger again."""
        return f"{PgqTrigger.__module__}.{PgqTrigger.__qualname__}", self.arguments

    def shared_stream_key(self) -> Hashable:
        """Return a key: triggers with the same arguments share one stream of messages."""
        return ("pgq", json.dumps(self.arguments, sort_keys=True))

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> Producer:
        """Return the producer that claims for all triggers of a key."""
        return Producer(**kwargs)

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[dict[str, Any]]
    ) -> AsyncIterator[Any]:
        """Fire an event for each batch: the database has applied the filter."""
        async for batch in shared_stream:
            yield TriggerEvent(batch)

    async def run(self) -> AsyncIterator[Any]:
        """Fire events where the triggerer does not report when they are recorded."""
        producer = Producer(**self.arguments)
        try:
            async for batch, lease_id in producer.open_stream():
                yield TriggerEvent(batch)
                await asyncio.sleep(self.arguments["settle"])
                await producer.end(lease_id, "ack")
        finally:
            await producer.aclose()


class Producer(SharedStreamProducer):
    """Claims messages for a stream, and ends them when Airflow reports their outcome."""

    def __init__(
        self,
        topic: str,
        filter: dict[str, Any] | None,
        n: int,
        conn_id: str | None,
        lease: float,
        poll_interval: float,
        settle: float = 0.0,
    ) -> None:
        self._topic = topic
        self._filter = filter
        self._n = n
        self._conn_id = conn_id
        self._lease = timedelta(seconds=lease)
        self._poll_interval = poll_interval
        self._client: pgq.AsyncPooledClient | None = None

    async def open_stream(self) -> AsyncIterator[tuple[dict[str, Any], int]]:
        """Yield claimed messages with their lease id, without end."""
        address = await asyncio.to_thread(conninfo, self._conn_id)
        self._client = client = await pgq.connect_async(address)
        woken, waiter = Event(), f"airflow {uuid4().hex}"
        await client.listener.join(await client.channel(self._topic), woken)
        while True:
            woken.clear()
            claimed = await client.claim(self._topic, self._filter, self._n, lease=self._lease)
            if claimed.lease_id is not None:
                yield (
                    {"queue": self._topic, "messages": list(map(shown, claimed))},
                    claimed.lease_id,
                )
                continue
            await client.wait_begin(self._topic, waiter, _IDLE)
            await woken.wait(self._poll_interval)

    async def advance(self, batch: Sequence[Any]) -> None:
        """Acknowledge recorded messages, release others, and bury those a trigger has rejected."""
        for item in batch:
            outcome = item.outcome
            if outcome.rejected:
                await self.end(item.broker_payload, "bury")
            else:
                await self.end(item.broker_payload, "ack" if outcome.is_clean else "release")

    def get_advance_lane(self, broker_payload: Any) -> Hashable:
        """Return a lane of its own for each lease, so that no lease waits for another."""
        lane: Hashable = broker_payload
        return lane

    async def end(self, lease_id: int, how: str) -> None:
        """End the messages of a lease; ignore a stale lease, whose messages are redelivered."""
        assert self._client is not None
        try:
            await getattr(self._client, how)(lease_id)
        except pgq.LeaseLost:
            return

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def shown(message: pgq.Message) -> dict[str, Any]:
    """Return a message as a dict, for an event."""
    return {
        "id": message.id,
        "topic": message.topic,
        "attempt": message.attempt,
        "headers": message.headers,
        "payload": message.payload,
        "published_at": message.published_at.isoformat(),
    }


def conninfo(conn_id: str | None) -> str:
    """Return the connection string of the database."""
    if conn_id is None:
        return os.environ.get("PGQ_DSN", "")
    from airflow.models.connection import Connection

    uri: str = Connection.get_connection_from_secrets(conn_id).get_uri()
    return uri.replace("postgres://", "postgresql://", 1)
