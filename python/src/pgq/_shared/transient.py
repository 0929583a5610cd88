"""Transient errors of the connection, and the options for repeating a call after one."""

from __future__ import annotations

from typing import Any, Protocol

import psycopg
from psycopg_pool import PoolClosed
from tenacity import (
    RetryCallState,
    retry_if_exception,
    stop_when_event_set,
    wait_random_exponential,
)

from pgq._shared.log import log, reason

__all__ = ["is_transient", "retry_options"]


class _Flag(Protocol):
    def is_set(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> Any: ...


def is_transient(error: BaseException) -> bool:
    """Whether the error is of the connection, so that the same call may succeed later."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not isinstance(
        error, PoolClosed
    )


def retry_options(stopping: _Flag, what: str) -> dict[str, Any]:
    """Return options of tenacity: repeat a call until it works or `stopping` is set."""

    def log_retry(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        why = "" if error is None else reason(error)
        number = state.attempt_number
        if number & (number - 1) == 0:  # log the attempts 1, 2, 4, 8, ...
            log(
                "WARNING",
                "transient_error",
                "%s failed, trying again: %s",
                what,
                why,
                doing=what,
                tries=number,
            )

    return {
        "retry": retry_if_exception(is_transient),
        "wait": wait_random_exponential(multiplier=0.1, max=5),
        "stop": stop_when_event_set(stopping),  # type: ignore[arg-type]
        "sleep": stopping.wait,
        "before_sleep": log_retry,
        "reraise": True,
    }
