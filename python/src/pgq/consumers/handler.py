"""Checks of handlers, and their names in logs and dead letters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["is_coroutine_function", "name_of", "refuse_generator", "refuse_result"]


def is_coroutine_function(handler: Callable[..., Any]) -> bool:
    """Whether a call of the handler returns a coroutine."""
    called = getattr(handler, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)


def refuse_generator(handler: Callable[..., Any]) -> None:
    """Raise if the handler is a generator function, or not callable."""
    if not callable(handler):
        raise TypeError(f"a handler is a function, not {handler!r}")
    for function in (handler, getattr(handler, "__call__", None)):  # noqa: B004
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{name_of(handler)} is a generator: a call of it runs nothing, so it cannot be a"
                " handler"
            )


def refuse_result(handler: Callable[..., Any], result: Any) -> None:
    """Raise if a handler that runs in a thread has returned an awaitable."""
    if not inspect.isawaitable(result):
        return
    if inspect.iscoroutine(result):
        result.close()
    raise TypeError(
        f"{name_of(handler)} has returned an awaitable, which nothing here awaits:"
        " use AsyncConsumer, or a handler that does its work before it returns"
    )


def name_of(handler: Callable[..., Any]) -> str:
    """Return the name of a handler, with its module."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    named = handler if hasattr(handler, "__qualname__") else type(handler)
    return f"{named.__module__}.{named.__qualname__}"
