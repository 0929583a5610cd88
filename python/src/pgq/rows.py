"""The rows that clients return."""

from __future__ import annotations

from collections.abc import Callable, KeysView, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Self

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
    "Row",
    "Schedule",
    "Subscription",
    "row_of",
]


class Row:
    """A row of a result: ``row.queue`` and ``row["queue"]`` are the same, ``dict(row)`` is a dict.

    >>> for stats in client.queue_stats():
    ...     print(stats.queue, stats.ready)
    """

    __slots__ = ()

    @classmethod
    def of(cls, **columns: Any) -> Self:
        """Return a row with these columns; the others are None."""
        return cls(*(columns.get(field.name) for field in fields(cls)))  # type: ignore[arg-type]

    def keys(self) -> KeysView[str]:
        """Return the names of the columns."""
        return dict.fromkeys(field.name for field in fields(self)).keys()  # type: ignore[arg-type]

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None


@dataclass(frozen=True, slots=True)
class Subscription(Row):
    """A row of `subscriptions`."""

    subscriber: str
    pattern: str
    filter: dict[str, Any] | None
    created_at: datetime
    match_count: int
    last_matched_at: datetime | None


@dataclass(frozen=True, slots=True)
class Schedule(Row):
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


@dataclass(frozen=True, slots=True)
class LogMessage(Row):
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


@dataclass(frozen=True, slots=True)
class ListedMessage(Row):
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


@dataclass(frozen=True, slots=True)
class DeadLetter(Row):
    """A dead letter: how the message ended, and the message."""

    queue: str
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


@dataclass(frozen=True, slots=True)
class Result(Row):
    """A row of `result`: the outcome of a message in one queue."""

    queue: str
    state: str
    result: Any
    error: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class HistoryEvent(Row):
    """A row of `history`: an event of a message."""

    at: datetime
    queue: str | None
    event: str
    attempt: int | None
    holder: str | None
    client: Any
    lease_id: int | None
    note: str | None


@dataclass(frozen=True, slots=True)
class QueueStats(Row):
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


@dataclass(frozen=True, slots=True)
class Finding(Row):
    """A row of `findings`: a problem, and its cure."""

    severity: str
    queue: str | None
    finding: str
    since: datetime | None
    detail: str
    cure: str


@dataclass(frozen=True, slots=True)
class Metric(Row):
    """A row of `metrics`."""

    name: str
    kind: str
    labels: dict[str, Any]
    value: float
    help: str


@dataclass(frozen=True, slots=True)
class RelayState(Row):
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


def row_of(kind: Any) -> Callable[[Any], Callable[[Sequence[Any]], Any]]:
    """Return a row factory of psycopg for this kind of row, always the same one.

    Columns of a newer server that the kind lacks are left out; columns that an older server lacks
    are None.

    :param kind: a class of this module.
    """
    return _factory(kind)


@cache
def _factory(kind: Any) -> Callable[[Any], Callable[[Sequence[Any]], Any]]:
    names = [field.name for field in fields(kind)]

    def factory(cursor: Any) -> Callable[[Sequence[Any]], Any]:
        columns: list[Any] = cursor.description or []
        found: dict[str, int] = {column.name: i for i, column in enumerate(columns)}
        positions = [found.get(name) for name in names]
        return lambda values: kind(*(None if i is None else values[i] for i in positions))

    return factory
