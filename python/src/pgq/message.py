"""Messages: claimed ones, and drafts to be published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgq.durations import Duration, aware, duration

__all__ = ["Draft", "Message", "common_options"]


@dataclass(frozen=True, slots=True)
class Message:
    """A claimed message: the columns of ``pgq.claimed``, in their order.

    >>> [message] = client.claim("orders")
    >>> message.id, message.attempt, message.payload
    (41, 1, {'amount': 12})
    """

    lease_id: int
    id: int
    topic: str
    priority: int
    attempt: int
    headers: dict[str, Any]
    payload: Any
    sender: str | None
    recipient: str | None
    reply_to: str | None
    correlation_id: str | None
    group_key: str | None
    published_at: datetime
    expires_at: datetime | None
    lease_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to be published: the parameters of ``pgq.publish``.

    Durations may also be numbers of seconds or texts such as ``15m``.

    >>> client.publish_many([Draft(topic="orders", payload={"amount": 12}, priority=5)])
    """

    payload: Any
    topic: str
    headers: dict[str, Any] | None = None
    priority: int = 0
    delay: Duration | None = None
    expires_in: Duration | None = None
    sender: str | None = None
    recipient: str | None = None
    reply_to: str | None = None
    correlation_id: str | None = None
    group_key: str | None = None
    dedup_key: str | None = None
    deliver_at: datetime | str | None = None

    def __post_init__(self) -> None:
        for name in ("delay", "expires_in"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, duration(given, name))
        if self.deliver_at is not None:
            if self.delay is not None:
                raise ValueError("a message has a delay or a deliver_at, not both")
            object.__setattr__(self, "deliver_at", aware(self.deliver_at, "deliver_at"))


def common_options(draft: Draft) -> tuple[Any, ...]:
    """Return the options that drafts must have in common to be published by one statement."""
    return (
        draft.topic,
        draft.priority,
        draft.delay,
        draft.deliver_at,
        draft.expires_in,
        draft.sender,
        draft.recipient,
        draft.reply_to,
        draft.correlation_id,
        draft.group_key,
        draft.dedup_key is None,
    )
