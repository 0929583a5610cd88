"""The rows that clients return, for editors and type checkers.

At run time the rows are plain dicts, so additional columns of a newer server do no harm.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypedDict

__all__ = [
    "DeadLetter",
    "Finding",
    "HistoryEvent",
    "ListedMessage",
    "LogMessage",
    "Metric",
    "QueueStats",
    "RelayState",
    "Result",
    "Schedule",
    "Subscription",
]


class Subscription(TypedDict):
    """A row of `subscriptions`."""

    subscriber: str
    pattern: str
    filter: dict[str, Any] | None
    created_at: datetime
    match_count: int
    last_matched_at: datetime | None


class Schedule(TypedDict):
    """A row of `schedules`: the message, its times, and the last run."""

    name: str
    topic: str
    payload: Any
    headers: dict[str, Any]
    priority: int
    expires_in: timedelta | None
    cron: str | None
    every: timedelta | None
    time_zone: str
    missed: str
    role: str
    paused: bool
    last_at: datetime | None
    last_id: int | None
    next_at: datetime | None
    late: timedelta | None
    error: str | None


class LogMessage(TypedDict):
    """A message of the log, as `peek` and `replies` return it."""

    id: int
    era: int
    topic: str
    priority: int
    headers: dict[str, Any]
    payload: Any
    sender: str | None
    recipient: str | None
    reply_to: str | None
    correlation_id: str | None
    group_key: str | None
    dedup_key: str | None
    deliver_at: datetime | None
    expires_at: datetime | None
    published_at: datetime
    publisher: str | None


class ListedMessage(TypedDict):
    """A message in one state, as `messages` returns it."""

    lease_id: int | None
    id: int
    topic: str
    priority: int
    attempt: int | None
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


class DeadLetter(TypedDict):
    """A dead letter: how the message ended, and the message."""

    dead_letter_id: int
    queue_id: int
    message_id: int
    reason: str
    error: str | None
    details: Any
    attempts: int
    failures: list[dict[str, Any]]
    holder: str | None
    client: Any
    failed_at: datetime
    replay_count: int
    replayed_at: datetime | None
    topic: str
    priority: int
    headers: dict[str, Any]
    payload: Any
    sender: str | None
    recipient: str | None
    reply_to: str | None
    correlation_id: str | None
    group_key: str | None
    dedup_key: str | None
    deliver_at: datetime | None
    expires_at: datetime | None
    published_at: datetime


class Result(TypedDict):
    """A row of `result`: the outcome of a message in one queue."""

    queue: str
    state: str
    result: Any
    error: str | None
    at: datetime | None


class HistoryEvent(TypedDict):
    """A row of `history`: an event of a message."""

    at: datetime
    queue: str | None
    event: str
    attempt: int | None
    holder: str | None
    client: Any
    lease_id: int | None
    note: str | None


class QueueStats(TypedDict):
    """A row of `queue_stats`. ``exact`` is False where the counts are estimates."""

    queue: str
    mode: str
    paused: bool
    ready: int
    scheduled: int
    leased: int
    waiting: int
    dead: int
    exact: bool
    oldest_age: timedelta | None
    next_due_at: datetime | None
    published_per_second: float | None
    acked_per_second: float | None
    failed_per_second: float | None
    relay: str | None
    rate_seconds: float | None
    estimated: list[str] | None


class Finding(TypedDict):
    """A row of `findings`: a problem, and its cure."""

    severity: str
    queue: str | None
    finding: str
    since: datetime | None
    detail: str
    cure: str


class Metric(TypedDict):
    """A row of `metrics`."""

    name: str
    kind: str
    labels: dict[str, Any]
    value: float
    help: str


class RelayState(TypedDict):
    """A row of `relays`: the queue, the destination, and whether the relay works."""

    queue: str
    relay: str
    destination: str | None
    alive: bool
    circuit: str | None
    changed_at: datetime | None
    error: str | None
    owner: str | None
    batch: int | None
