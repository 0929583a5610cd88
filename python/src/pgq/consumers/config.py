"""The options of a consumer, and the exceptions that a handler may raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self

from pgq._shared.arguments import check_flags, check_functions, check_numbers
from pgq.durations import Duration, set_durations, span
from pgq.filters import Filter, document
from pgq.message import Message
from pgq.payloads.typed import check_type

__all__ = ["ConsumerConfig", "Reject", "Retry"]

_SPANS = ("poll_interval", "idle_timeout", "refused_delay", "lease", "handler_timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """The options of a consumer. Durations may also be seconds, or texts such as ``15m``.

    :param filter: the messages to claim, evaluated by the database; None for all.
    :param where: a test in the client. Messages that fail the test are released without counting
        the attempt, and are not delivered again before `refused_delay`.
    :param payload_type: the type of payloads: a dataclass, a model of pydantic, any type hint.
        A message whose payload does not fit is refused, and no handler is called.
    :param batch_size: the maximum number of messages of one claim. None adapts it: as many as the
        handlers finish in a few tenths of a second, at most 1000.
    :param concurrency: how many handlers run concurrently, as threads or tasks.
    :param lease: the lease duration; the queue's if None. The lease is extended while a handler
        runs.
    :param handler_timeout: how long a handler may take for one message; None for no limit.
    :param notifications: False to poll instead of listening for notifications.
    :param poll_interval: how often to poll if notifications do not work.
    :param idle_timeout: how often to poll, for safety, if notifications work.
    :param ack_delay: finished messages of a batch are acknowledged together, after this time at
        the latest.
    :param grace: how long running handlers may take to finish when the consumer stops.
    :param maintain: call ``pgq.maintain()`` about once a minute, from one consumer of the process.
    :param drain: end when nothing is ready, instead of waiting for more.

    >>> ConsumerConfig(filter={"type": "paid"}, concurrency=4, handler_timeout="5m")
    """

    filter: Filter = None
    where: Callable[[Message], bool] | None = None
    payload_type: Any = None
    batch_size: int | None = None
    concurrency: int = 1
    lease: timedelta | None = None
    handler_timeout: timedelta | None = timedelta(minutes=30)
    notifications: bool = True
    poll_interval: timedelta = timedelta(seconds=1)
    idle_timeout: timedelta = timedelta(seconds=30)
    refused_delay: timedelta = timedelta(seconds=1)
    ack_delay: timedelta = timedelta(seconds=1)
    grace: timedelta = timedelta(seconds=20)
    maintain: bool = True
    drain: bool = False

    def __post_init__(self) -> None:
        set_durations(self, *_SPANS, "ack_delay", "grace")
        document(self.filter)  # raises if it cannot be a filter
        check_functions(where=self.where)
        check_type(self.payload_type, "payload_type")
        check_numbers(batch_size=self.batch_size, concurrency=self.concurrency)
        check_flags(notifications=self.notifications, maintain=self.maintain, drain=self.drain)
        if self.batch_size is not None and not 1 <= self.batch_size <= 1_000_000:
            raise ValueError(f"batch_size must be between 1 and 1000000, not {self.batch_size}")
        if not 1 <= self.concurrency <= 1000:
            raise ValueError(f"concurrency must be between 1 and 1000, not {self.concurrency}")
        for name in _SPANS:
            given = getattr(self, name)
            if given is not None and given <= timedelta(0):
                raise ValueError(f"{name} must be longer than zero")
        for name in ("ack_delay", "grace"):
            if getattr(self, name) < timedelta(0):
                raise ValueError(f"{name} must not be negative")

    @classmethod
    def of(cls, config: Self | None, **options: Any) -> Self:
        """Return the configuration with some options changed."""
        if config is not None and not isinstance(config, cls):
            raise TypeError(f"config is a {cls.__name__}, not {config!r}")
        return replace(config, **options) if config is not None else cls(**options)


class Retry(Exception):
    """Raised by a handler to retry its message, after the delay or the queue's backoff.

    >>> raise Retry("the bank does not answer", delay="5m")
    """

    def __init__(self, reason: str = "", *, delay: Duration | None = None) -> None:
        super().__init__(reason)
        self.delay = span(delay, "delay")


class Reject(Exception):
    """Raised by a handler to make its message a dead letter, without a retry."""
