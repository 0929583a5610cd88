"""What consumers need to run several things at once, by asyncio; `pgq._threads` is its twin."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
from asyncio import Lock, Queue
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

__all__ = ["NOTIFY_SECONDS", "Event", "Lock", "Queue", "Task", "caller", "on_signals"]

#: How long to wait for notifications at a time: a task can be cancelled meanwhile.
NOTIFY_SECONDS = 3600.0


class Event:
    """A flag that can be waited for."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set
        self.clear = self._event.clear
        self.is_set = self._event.is_set

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set; False if that took too long."""
        if not self._event.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._event.wait()
        return self._event.is_set()


class Task:
    """Something that runs beside its caller."""

    def __init__(self, name: str, function: Callable[..., Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.get_running_loop().create_task(function(), name=name)

    async def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; False if that took too long. Raises what the task has raised."""
        await asyncio.wait([self._task], timeout=timeout)
        if not self._task.done():
            return False
        if not self._task.cancelled():
            self._task.result()
        return True

    async def cancel(self) -> None:
        """End it now."""
        self._task.cancel()
        await asyncio.wait([self._task])


def caller(handler: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return the handler as something to await; a plain function is called in a thread."""
    called = getattr(handler, "__call__", None)  # noqa: B004
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called):
        return handler
    return lambda *arguments, **options: asyncio.to_thread(handler, *arguments, **options)


@contextlib.contextmanager
def on_signals(stop: Callable[[], None], enabled: bool) -> Iterator[None]:
    """Call `stop` when the process is asked to end."""
    loop = asyncio.get_running_loop()
    added = []
    if enabled:
        for number in (signal.SIGTERM, signal.SIGINT):
            # Only the main thread can have handlers.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, stop)
                added.append(number)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)
