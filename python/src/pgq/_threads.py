"""What consumers need to run several things at once, by threads; `pgq._aio` is its twin."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue as Queue
from types import FrameType
from typing import Any

__all__ = ["NOTIFY_SECONDS", "Event", "Lock", "Queue", "Task", "caller", "on_signals"]

#: How long to wait for notifications at a time: a thread has to look whether it should stop.
NOTIFY_SECONDS = 0.25

Event = threading.Event
Lock = threading.Lock


class Task:
    """Something that runs beside its caller."""

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
        """Wait for the end; False if that took too long. Raises what the task has raised."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def cancel(self) -> None:
        """Do nothing: a thread ends when it is done."""


def caller(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler."""
    return handler


@contextlib.contextmanager
def on_signals(stop: Callable[[], None], enabled: bool) -> Iterator[None]:
    """Call `stop` when the process is asked to end."""
    before = {}

    def ask(number: int, frame: FrameType | None) -> None:
        # The interrupted code may hold a lock that stop() needs, so it is not called from here.
        threading.Thread(target=stop, daemon=True).start()

    if enabled and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
