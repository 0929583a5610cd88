"""The options of a transport."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self

from pgq._shared.arguments import check_flags, check_numbers, check_texts
from pgq.durations import set_durations
from pgq.options import QueuePolicy

__all__ = ["TransportConfig"]

_NUMBERS = (
    "connection_pool_size",
    "batch_size",
    "default_priority",
    "max_processing_attempts",
    "retrieval_limit",
)
_FLAGS = (
    "enable_batching",
    "enable_delayed_processing",
    "dead_letter_queue_enabled",
    "enable_content_routing",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportConfig:
    """The options of a `Transport`.

    :param database_url: a connection string of libpq; defaults come from the ``PG*`` variables.
    :param connection_pool_size: the maximum size of the pool.
    :param enable_batching: publish messages in batches of `batch_size`, or after `batch_timeout`.
        If False, each message is published immediately.
    :param default_priority: the priority of messages that are published without one.
    :param enable_delayed_processing: whether messages may have a delay.
    :param max_processing_attempts: `max_attempts` of the queues that the transport creates.
    :param dead_letter_queue_enabled: False drops messages that expire undelivered. Messages that
        fail become dead letters in any case.
    :param retrieval_limit: the maximum number of messages of a claim, unless n is given.
    :param enable_content_routing: whether consumers may have filters.

    >>> TransportConfig(database_url="postgresql://app@db/shop", batch_size=50)
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

    def __post_init__(self) -> None:
        check_texts(database_url=self.database_url)
        check_numbers(**{name: getattr(self, name) for name in _NUMBERS})
        check_flags(**{name: getattr(self, name) for name in _FLAGS})
        set_durations(self, "batch_timeout")
        if self.batch_timeout <= timedelta(0):
            raise ValueError("batch_timeout must be longer than zero")
        for name in ("connection_pool_size", "batch_size", "retrieval_limit"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")

    @classmethod
    def of(cls, config: Self | str | None, **options: Any) -> Self:
        """Return the configuration with some options changed; a text is the `database_url`."""
        if isinstance(config, str):
            return cls(database_url=config, **options)
        if config is not None and not isinstance(config, cls):
            raise TypeError(f"config is a {cls.__name__}, not {config!r}")
        return replace(config, **options) if config is not None else cls(**options)

    def policy(self) -> QueuePolicy:
        """Return the options for `create_queue`."""
        return {
            "max_attempts": self.max_processing_attempts,
            "on_expiry": "dead_letter" if self.dead_letter_queue_enabled else "discard",
        }
