"""Durations: a timedelta, a number of seconds, or a text such as 500ms, 90s, 15m, 2h, 1d. Times."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

__all__ = ["Duration", "aware", "duration", "moment", "set_durations", "span"]

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


def moment(value: datetime | str | None, what: str) -> datetime | None:
    """Return a time; a text has the form of ISO 8601."""
    if value is None or isinstance(value, datetime):
        return value
    if isinstance(value, str):
        with suppress(ValueError):
            return datetime.fromisoformat(value)
    raise TypeError(f"{what} is a datetime, or text such as 2030-01-02T03:04:05Z, not {value!r}")


def aware(value: datetime | str | None, what: str) -> datetime | None:
    """Return a time that has a time zone."""
    given = moment(value, what)
    if given is not None and given.tzinfo is None:
        raise ValueError(f"{what} needs a time zone, such as datetime.now(UTC) has, not {value!r}")
    return given
