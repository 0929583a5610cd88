"""A destination as a transport: messages are sent when they are published, without a queue."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from pgq.encoding import dumps
from pgq.errors import PgqError
from pgq.payloads.serializers import Payloads
from pgq.relay.destination import Destination, Record

__all__ = ["Direct"]


class Direct:
    """Sends each message to a destination when it is published, or raises the error.

    A message that cannot be sent is lost. To store messages, publish to a queue that a relay
    forwards.
    """

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self._lock = threading.Lock()

    def publish(
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
        deliver_at: datetime | None = None,
    ) -> int:
        """Send one message and return its id.

        The id and the time are derived from the headers ``uuid`` and ``published_at``, so that all
        copies of a message have the same ones. Without these headers the id is a random number.
        """
        if any(option is not None for option in (delay, deliver_at, dedup_key)):
            raise ValueError(f"{self.destination.label} has neither delays nor dedup keys")
        payload, headers = Payloads().prepared(topic, payload, headers)
        now = _moment(headers) or datetime.now(UTC)
        id = (_uuid(headers) or uuid4()).int >> 65
        record = Record(
            0,
            id,
            topic,
            priority,
            dumps(headers or {}),
            dumps(payload),
            now,
            sender=sender,
            recipient=recipient,
            reply_to=reply_to,
            correlation_id=correlation_id,
            group_key=group_key,
            expires_at=None if expires_in is None else now + expires_in,
        )
        with self._lock:
            refused = self.destination.send(uuid4().hex, [record])
        if refused:
            raise PgqError(f"{self.destination.label} refused the message: {refused[id]}")
        return id

    def close(self) -> None:
        """Close the connections."""
        self.destination.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _uuid(headers: dict[str, Any] | None) -> UUID | None:
    try:
        return UUID(str((headers or {}).get("uuid")))
    except ValueError:
        return None


def _moment(headers: dict[str, Any] | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(str((headers or {}).get("published_at")))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
