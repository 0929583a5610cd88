"""A circuit breaker: after too many failures, calls are refused for a while."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Literal

try:
    import interlock
except ImportError:  # an extra: clients publish without a breaker then
    interlock: Any = None  # type: ignore[no-redef]

from pgq.durations import Duration, duration
from pgq.errors import CircuitOpen

__all__ = ["CircuitBreaker", "breaker_or_none"]


class _Clock:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.monotonic = clock


class CircuitBreaker:
    """Opens after `failures` within `window`; after `reset`, lets one call through as a trial.

    Threads and tasks may share a breaker. It uses the library interlock, which opens at a rate of
    failures. Only failures are reported to interlock, so the rate is 1 and their number decides.

    :param failures: how many failures open the breaker.
    :param window: the time within which they are counted.
    :param reset: how long the breaker stays open.

    >>> breaker = CircuitBreaker(failures=3, reset="10s")
    >>> with breaker.guard(lambda error: isinstance(error, OSError)):
    ...     send()
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        window: Duration = timedelta(minutes=2),
        reset: Duration = timedelta(seconds=30),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if interlock is None:
            raise ModuleNotFoundError(
                "circuit breakers need interlock: pip install 'pgq-client[breaker]'"
            )
        self._clock = clock
        self._reset = duration(reset, "reset").total_seconds()
        self._until = 0.0
        self._circuit = interlock.CircuitBreaker(
            name="pgq",
            clock=_Clock(clock),
            config=interlock.Config(
                failure_rate_threshold=1.0,
                minimum_number_of_calls=failures,
                window_type=interlock.WindowType.TIME_BASED,
                window_size=math.ceil(duration(window, "window").total_seconds()),
                wait_duration_in_open=self._reset,
                permitted_calls_in_half_open=1,
                slow_call_duration_threshold=math.inf,
            ),
        )

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """Whether calls pass (closed), are refused (open), or the next is a trial (half-open)."""
        if self._circuit.state is interlock.State.CLOSED:
            return "closed"
        return "open" if self.left > 0 else "half-open"

    @property
    def left(self) -> float:
        """For how many seconds calls are still refused."""
        return max(self._until - self._clock(), 0.0)

    @contextmanager
    def guard(self, is_failure: Callable[[Exception], bool]) -> Iterator[None]:
        """Run the block, or raise `CircuitOpen`; count an error of the block if it is a failure."""
        trial = self._circuit.state is not interlock.State.CLOSED
        if trial:
            self._admit()
        raised: BaseException | None = None
        try:
            yield
        except Exception as error:
            if is_failure(error):
                # interlock keeps the exception; the original one would keep frames alive.
                raised = ConnectionError()
            raise
        except BaseException as error:
            raised = error  # a cancelled trial decides nothing: the next call is a trial again
            raise
        finally:
            with suppress(CircuitOpen):  # another call may have opened the circuit meanwhile
                if not trial and isinstance(raised, Exception):
                    self._admit()
                    trial = True
            if trial:
                self._circuit.__exit__(None, raised, None)
                if self._circuit.state is interlock.State.OPEN:
                    self._until = self._clock() + self._reset

    def _admit(self) -> None:
        try:
            self._circuit.__enter__()
        except interlock.CircuitOpenError:
            text = "the database failed too often lately"
            raise CircuitOpen(text, hint=f"It is tried again in {self.left:.0f} s.") from None


class _Closed(CircuitBreaker):
    """A breaker that never opens, for clients without the extra."""

    def __init__(self) -> None:
        pass

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """Always ``closed``."""
        return "closed"

    @property
    def left(self) -> float:
        """Always zero."""
        return 0.0

    @contextmanager
    def guard(self, is_failure: Callable[[Exception], bool]) -> Iterator[None]:
        """Run the block."""
        yield


def breaker_or_none() -> CircuitBreaker:
    """Return a new breaker, or one that never opens if interlock is not installed."""
    return _Closed() if interlock is None else CircuitBreaker()
