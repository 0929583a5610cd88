"""Filters evaluated in the client: for subscribers, groups and queues in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pgq import matching
from pgq.encoding import dumps
from pgq.filters import Filter, document
from pgq.message import Message

__all__ = ["client_test", "matches_pattern", "world"]


def client_test(filter: Filter) -> Callable[[Message], bool]:
    """Return a function that tests whether a message matches a filter."""
    wanted = document(filter)
    if not wanted:
        return lambda message: True
    test = matching.compile_filter(wanted)
    return lambda message: test(world(message, message.attempt, datetime.now(UTC)))


def matches_pattern(pattern: str, topic: str) -> bool:
    """Whether a topic matches a pattern of a subscription."""
    return matching.topic_matches(matching.topic_words(pattern), topic)


def world(message: Message, attempts: int, now: datetime) -> matching.World:
    """Return a message as `pgq.matching` expects it."""

    def seconds(moment: datetime | None) -> Decimal | None:
        return None if moment is None else Decimal(str(moment.timestamp()))

    own = {
        "id": message.id,
        "topic": message.topic,
        "priority": message.priority,
        "attempt": attempts,
        "sender": message.sender,
        "recipient": message.recipient,
        "reply_to": message.reply_to,
        "correlation_id": message.correlation_id,
        "group_key": message.group_key,
        "published_at": seconds(message.published_at),
        "expires_at": seconds(message.expires_at),
    }
    exact = matching.Message(_exact(message.headers), _exact(message.payload), own)
    return matching.World(exact, seconds(now) or Decimal(0))


def _exact(value: Any) -> Any:
    return matching.loads(dumps(value))
