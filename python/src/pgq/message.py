"""Messages: as they come from a queue, and as they are to be published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

__all__ = ["Draft", "Message"]


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
