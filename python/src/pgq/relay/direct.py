"""A destination as a transport: each message is sent as it is published, without a queue."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from pgq.errors import PgqError
from pgq.relay.destination import Copy, Destination

__all__ = ["Direct"]


class Direct:
    """Publishes to a destination at once, or raises why not.

    Nothing keeps what cannot be sent: for that publish to a queue, and let a relay forward it.
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
    ) -> int:
        """Send one message and return its id, a random number."""
        if delay is not None or dedup_key is not None:
            raise ValueError(f"{self.destination.label} has neither delays nor dedup keys")
        now = datetime.now(UTC)
        id = uuid4().int >> 65
        copy = Copy(
            *(0, id, topic, priority, _json(headers or {}), _json(payload), now),
            sender=sender,
            recipient=recipient,
            reply_to=reply_to,
            correlation_id=correlation_id,
            group_key=group_key,
            expires_at=None if expires_in is None else now + expires_in,
        )
        with self._lock:
            refused = self.destination.send(uuid4().hex, [copy])
        if refused:
            raise PgqError(f"{self.destination.label} refused the message: {refused[id]}")
        return id

    def close(self) -> None:
        """Let go of connections."""
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


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
