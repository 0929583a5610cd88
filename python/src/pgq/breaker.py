"""A circuit breaker: after too many failures the database is left alone for a while."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Literal

from pgq.errors import CircuitOpen

__all__ = ["CircuitBreaker"]


class CircuitBreaker:
    """Opens after `failures` within `window`; lets one trial through after `reset`.

    Threads and tasks may share one. (Libraries count failures in a row, and not those of a time.)
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        window: timedelta = timedelta(minutes=2),
        reset: timedelta = timedelta(seconds=30),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if failures < 1 or window <= timedelta(0) or reset < timedelta(0):
            raise ValueError("a circuit breaker needs at least one failure and a window")
        self._limit = failures
        self._window = window.total_seconds()
        self._reset = reset.total_seconds()
        self._clock = clock
        self._lock = threading.Lock()
        self._failed: deque[float] = deque(maxlen=failures)
        self._opened: float | None = None
        self._trial = False

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """Whether calls pass, are refused, or the next one is a trial."""
        if self._opened is None:
            return "closed"
        return "open" if self._clock() < self._opened + self._reset else "half-open"

    @property
    def left(self) -> float:
        """For how many seconds calls are still refused."""
        opened = self._opened
        return 0.0 if opened is None else max(opened + self._reset - self._clock(), 0.0)

    def check(self) -> None:
        """Raise `CircuitOpen` unless a call may pass."""
        if self._opened is None:
            return
        with self._lock:
            if self._opened is None:
                return
            left = self._opened + self._reset - self._clock()
            if left > 0 or self._trial:
                raise CircuitOpen(
                    "the database failed too often lately",
                    hint=f"It is tried again in {max(left, 0):.0f} s.",
                )
            self._trial = True

    def success(self) -> None:
        """Note that a call has worked: an open circuit is closed."""
        if self._opened is None:
            return
        with self._lock:
            self._opened = None
            self._trial = False
            self._failed.clear()

    def failure(self) -> None:
        """Note that a call has failed because of the connection."""
        with self._lock:
            now = self._clock()
            self._failed.append(now)
            many = len(self._failed) == self._limit and now - self._failed[0] <= self._window
            if self._opened is not None or many:
                self._opened = now
                self._trial = False
