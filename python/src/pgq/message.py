"""Messages: as they come from a queue, and as they are to be published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, make_dataclass
from datetime import datetime, timedelta
from typing import Any

__all__ = ["Draft", "Message", "common_options", "received"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message in the hands of a consumer: the columns of ``pgq.claimed``, in their order."""

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


_Unfrozen = make_dataclass(
    "_Unfrozen", [(field.name, field.type) for field in fields(Message)], slots=True
)


def received(values: Sequence[Any]) -> Message:
    """Return the message of a row.

    A frozen dataclass takes four times as long to fill as one that is frozen afterwards.
    """
    message: Any = _Unfrozen(*values)
    message.__class__ = Message
    return message  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to be published: the parameters of ``pgq.publish``."""

    payload: Any
    topic: str
    headers: dict[str, Any] | None = None
    priority: int = 0
    delay: timedelta | None = None
    expires_in: timedelta | None = None
    sender: str | None = None
    recipient: str | None = None
    reply_to: str | None = None
    correlation_id: str | None = None
    group_key: str | None = None
    dedup_key: str | None = None


def common_options(draft: Draft) -> tuple[Any, ...]:
    """Return what drafts must have in common to be published by one statement."""
    return (
        *(draft.topic, draft.priority, draft.delay, draft.expires_in, draft.sender),
        *(draft.recipient, draft.reply_to, draft.correlation_id, draft.group_key),
        draft.dedup_key is None,
    )
