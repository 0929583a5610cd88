"""How a consumer goes about its work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self

from pgq.filters import Filter
from pgq.message import Message

__all__ = ["ConsumerConfig", "Reject", "Retry", "TransportConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """The options of a consumer.

    :param filter: what to take, decided by the database; None and ``{}`` take everything.
    :param where: a second stage, here: what it refuses goes back unharmed after `refused_delay`.
    :param batch_size: the most messages of one claim; if None, what the handlers do within some
        tenths of a second, up to 1000.
    :param concurrency: how many handlers run at once, as threads or tasks.
    :param lease: how long a claim holds its messages; the queue's lease if None. It is renewed
        while a handler runs.
    :param notifications: False to poll always.
    :param poll_interval: how often to look when notifications cannot be had.
    :param idle_timeout: how often to look, for safety's sake, when they can.
    :param ack_delay: finished messages of a batch are acknowledged together, after this time at
        the latest.
    :param grace: how long running handlers may take to finish when the consumer stops.
    :param maintain: call ``pgq.maintain()`` about once a minute, from one consumer of the process.
    :param drain: end when nothing is ready, instead of waiting for more.
    """

    filter: Filter = None
    where: Callable[[Message], bool] | None = None
    batch_size: int | None = None
    concurrency: int = 1
    lease: timedelta | None = None
    notifications: bool = True
    poll_interval: timedelta = timedelta(seconds=1)
    idle_timeout: timedelta = timedelta(seconds=30)
    refused_delay: timedelta = timedelta(seconds=1)
    ack_delay: timedelta = timedelta(seconds=1)
    grace: timedelta = timedelta(seconds=20)
    maintain: bool = True
    drain: bool = False

    def __post_init__(self) -> None:
        if self.batch_size is not None and not 1 <= self.batch_size <= 1_000_000:
            raise ValueError(f"batch_size must be between 1 and 1000000, not {self.batch_size}")
        if not 1 <= self.concurrency <= 1000:
            raise ValueError(f"concurrency must be between 1 and 1000, not {self.concurrency}")
        spans = ("poll_interval", "idle_timeout", "refused_delay")
        for name in spans if self.lease is None else (*spans, "lease"):
            if getattr(self, name) <= timedelta(0):
                raise ValueError(f"{name} must be longer than zero")
        for name in ("ack_delay", "grace"):
            if getattr(self, name) < timedelta(0):
                raise ValueError(f"{name} must not be negative")

    @classmethod
    def of(cls, config: Self | None, **options: Any) -> Self:
        """Return the configuration with some options changed."""
        given = {name: value for name, value in options.items() if value is not None}
        return replace(config, **given) if config is not None else cls(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportConfig:
    """The options of a `Transport`.

    :param database_url: as libpq has it; what it leaves out comes from the ``PG*`` variables.
    :param enable_batching: messages are published together: `batch_size` of them, or what has come
        within `batch_timeout`. Else each is published at once.
    :param enable_delayed_processing: whether messages may have a delay.
    :param max_processing_attempts: of the queues that the transport creates.
    :param dead_letter_queue_enabled: False drops messages that expire undelivered. What fails is
        kept in any case: nothing else would tell of it.
    :param retrieval_limit: the most messages of a claim that says nothing else.
    :param enable_content_routing: whether consumers may have filters.
    """

    database_url: str = ""
    connection_pool_size: int = 10
    enable_batching: bool = True
    batch_size: int = 100
    batch_timeout: timedelta = timedelta(seconds=5)
    default_priority: int = 0
    enable_delayed_processing: bool = True
    max_processing_attempts: int = 3
    dead_letter_queue_enabled: bool = True
    retrieval_limit: int = 100
    enable_content_routing: bool = True

    @classmethod
    def of(cls, config: Self | None, **options: Any) -> Self:
        """Return the configuration with some options changed."""
        return replace(config, **options) if config is not None else cls(**options)

    def policy(self) -> dict[str, Any]:
        """Return what `create_queue` needs to know."""
        return {
            "max_attempts": self.max_processing_attempts,
            "on_expiry": "dead_letter" if self.dead_letter_queue_enabled else "discard",
        }


class Retry(Exception):
    """Raised by a handler: try the message again, after the delay or the queue's backoff."""

    def __init__(self, reason: str = "", *, delay: timedelta | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class Reject(Exception):
    """Raised by a handler: the message can never be handled, so it becomes a dead letter."""
