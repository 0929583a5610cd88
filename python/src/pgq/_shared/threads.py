"""Concurrency by threads; `pgq._shared.aio` has the same names for asyncio."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from queue import SimpleQueue as Queue
from types import FrameType
from typing import Any

from pgq.consumers.handler import is_coroutine_function, name_of, refuse_generator, refuse_result

__all__ = [
    "ASYNC",
    "NOTIFY_SECONDS",
    "Event",
    "Lock",
    "Queue",
    "Task",
    "caller",
    "driver",
    "lower",
    "on_signals",
]

#: False in this module, True in `pgq._shared.aio`.
ASYNC = False

#: How long to wait for notifications at a time; in between, a thread checks whether to stop.
NOTIFY_SECONDS = 0.25

Event = threading.Event
Lock = threading.Lock


class Task:
    """A function that runs in a thread."""

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._function()
        except BaseException as error:
            self._error = error

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of the thread and raise its error; False after the timeout."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def cancel(self) -> None:
        """Do nothing: a thread cannot be cancelled."""

    def abandon(self) -> None:
        """Do nothing: a thread cannot be cancelled."""

    @property
    def done(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    @property
    def stack(self) -> str:
        """The current stack of the thread, formatted like a traceback."""
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001
        return "" if frame is None else "".join(traceback.format_stack(frame))


def caller(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler, with a check that it does not return an awaitable."""
    refuse_generator(handler)
    if is_coroutine_function(handler):
        raise TypeError(
            f"{name_of(handler)} is a coroutine function, which threads cannot run: use the class"
            " for asyncio (AsyncConsumer for Consumer)"
        )

    def call(*arguments: Any, **options: Any) -> Any:
        result = handler(*arguments, **options)
        if result is not None:
            refuse_result(handler, result)
        return result

    return call


@contextlib.contextmanager
def on_signals(stop: Callable[[], None], enabled: bool) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT while the block runs."""
    before = {}

    def handle(number: int, frame: FrameType | None) -> None:
        # The interrupted code may hold a lock that stop() needs: call it in another thread.
        threading.Thread(target=stop, daemon=True).start()

    if enabled and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def lower(conn: Any) -> Any:
    """Return the driver's connection under a connection of SQLAlchemy."""
    return conn.connection.driver_connection


def driver(lent: Any) -> Callable[..., Any] | None:
    """Return None: no driver for threads except psycopg is supported."""
    return None
