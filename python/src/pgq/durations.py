"""Durations: a timedelta, a number of seconds, or a text such as 500ms, 90s, 15m, 2h, 1d."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from typing import Any

__all__ = ["Duration", "duration", "set_durations", "span"]

Duration = timedelta | float | str

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)?\s*")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def duration(value: Duration, what: str = "duration") -> timedelta:
    """Return a duration as a timedelta; numbers and texts without a unit are seconds.

    :param value: the duration.
    :param what: the name of the argument, for the error.
    """
    if isinstance(value, timedelta):
        return value
    seconds: float | None = None
    if isinstance(value, str):
        parts = _SPAN.findall(value)
        if parts and not _SPAN.sub("", value):
            seconds = sum(float(number) * _UNITS[unit or "s"] for number, unit in parts)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    if seconds is not None:
        with suppress(ValueError, OverflowError):  # not a number, or too large for a timedelta
            return timedelta(seconds=seconds)
    raise ValueError(
        f"{what} is no duration: {value!r}; write a timedelta, seconds, or 500ms, 90s, 15m, 2h, 1d"
    )


def span(value: Duration | None, what: str = "duration") -> timedelta | None:
    """Return a duration as a timedelta, or None."""
    return None if value is None else duration(value, what)


def set_durations(config: Any, *names: str) -> None:
    """Convert attributes of a frozen dataclass that are numbers or texts to timedelta."""
    for name in names:
        given = getattr(config, name)
        if given is not None and not isinstance(given, timedelta):
            object.__setattr__(config, name, duration(given, name))
