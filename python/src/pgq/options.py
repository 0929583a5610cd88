"""The values of options, and the options of calls, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from pgq.durations import Duration
    from pgq.filters import Filter
    from pgq.message import Message

__all__ = [
    "ConsumerOptions",
    "Dedup",
    "Journal",
    "MessageState",
    "Missed",
    "Mode",
    "OnDead",
    "OnExpiry",
    "PublishOptions",
    "QueuePolicy",
    "StreamOptions",
]

#: ``archive``: the queue stores messages in the log and delivers none.
Mode = Literal["queue", "archive"]
#: What happens to a message that expires before it is delivered.
OnExpiry = Literal["dead_letter", "discard"]
#: What a dead letter does to its ordering group: let the next message pass, or hold the group.
OnDead = Literal["release", "block"]
#: What happens to a waiting message when another one with its dedup key is published.
Dedup = Literal["keep", "replace", "postpone"]
#: What the audit log records: every event, or failures only.
Journal = Literal["all", "failures"]
#: Which messages `messages` lists.
MessageState = Literal["ready", "scheduled", "leased", "waiting", "dead"]
#: What happens to missed runs of a schedule.
Missed = Literal["skip", "one", "all"]


class QueuePolicy(TypedDict, total=False):
    """The options of `create_queue` and `alter_queue`."""

    lane_keys: Sequence[str] | str | None
    lease: Duration
    max_attempts: int
    backoff: Duration
    max_backoff: Duration
    retention: Duration
    mode: Mode
    dedup_window: Duration
    on_expiry: OnExpiry
    set_size: int
    journal: Journal
    on_dead: OnDead
    suggestions: bool
    max_leased: int | None
    rate: str | None
    burst: int | None
    lane_max_leased: int | None
    lane_rate: str | None
    lane_burst: int | None
    fair: bool
    max_lease: Duration
    dedup: Dedup


class PublishOptions(TypedDict, total=False):
    """The options of `publish` that `request` passes on."""

    priority: int
    delay: Duration | None
    sender: str | None
    recipient: str | None
    group_key: str | None
    dedup_key: str | None
    serializer: str | None


class StreamOptions(TypedDict, total=False):
    """The options of `consume`, as `ConsumerConfig` describes them."""

    where: Callable[[Message], bool] | None
    payload_type: Any
    batch_size: int | None
    concurrency: int
    lease: Duration | None
    handler_timeout: Duration | None
    notifications: bool
    poll_interval: Duration
    idle_timeout: Duration
    refused_delay: Duration
    ack_delay: Duration
    grace: Duration
    maintain: bool
    drain: bool


class ConsumerOptions(StreamOptions, total=False):
    """The options of a consumer: those of `consume`, and the filter."""

    filter: Filter
