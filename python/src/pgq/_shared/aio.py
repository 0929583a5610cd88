"""Concurrency by asyncio; `pgq._shared.threads` has the same names for threads."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import signal
from asyncio import Lock, Queue
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

from pgq.consumers.handler import is_coroutine_function, refuse_generator

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

#: True in this module, False in `pgq._shared.threads`.
ASYNC = True

#: How long to wait for notifications at a time; a waiting task can be cancelled.
NOTIFY_SECONDS = 3600.0


class Event:
    """A flag that can be waited for."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set
        self.clear = self._event.clear
        self.is_set = self._event.is_set

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set; False after the timeout."""
        if not self._event.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._event.wait()
        return self._event.is_set()


class Task:
    """A coroutine that runs in the background."""

    def __init__(self, name: str, function: Callable[..., Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.get_running_loop().create_task(function(), name=name)

    async def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of the task and raise its error; False after the timeout."""
        await asyncio.wait([self._task], timeout=timeout)
        if not self._task.done():
            return False
        if not self._task.cancelled():
            self._task.result()
        return True

    async def cancel(self) -> None:
        """Cancel the task and wait for its end."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def abandon(self) -> None:
        """Cancel the task without waiting."""
        self._task.cancel()

    @property
    def done(self) -> bool:
        """Whether the task has ended."""
        return self._task.done()

    @property
    def stack(self) -> str:
        """The current stack of the task, formatted like a traceback."""
        text = io.StringIO()
        self._task.print_stack(file=text)
        return text.getvalue()


def caller(handler: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return the handler as a coroutine function; a plain function runs in a thread."""
    refuse_generator(handler)
    if is_coroutine_function(handler):
        return handler

    async def call(*arguments: Any, **options: Any) -> Any:
        result = await asyncio.to_thread(handler, *arguments, **options)
        return await result if inspect.isawaitable(result) else result

    return call


@contextlib.contextmanager
def on_signals(stop: Callable[[], None], enabled: bool) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT while the block runs."""
    loop = asyncio.get_running_loop()
    added = []
    if enabled:
        for number in (signal.SIGTERM, signal.SIGINT):
            # Only the main thread can have signal handlers.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, stop)
                added.append(number)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)


async def lower(conn: Any) -> Any:
    """Return the driver's connection under a connection of SQLAlchemy."""
    return (await conn.get_raw_connection()).driver_connection


def driver(lent: Any) -> Callable[..., Any] | None:
    """Return a function that fetches rows by asyncpg; None for other drivers."""
    if not hasattr(lent, "fetch") or not hasattr(lent, "prepare"):
        return None
    from pgq._sync.lender import numbered

    async def fetch(statement: str, values: list[Any]) -> tuple[list[Any], list[Any]]:
        prepared = await lent.prepare(numbered(statement))
        rows = await prepared.fetch(*values)
        return [(a.name, a.type.oid) for a in prepared.get_attributes()], rows

    return fetch
