"""Filter pushdown: conditions of Spark that PostgreSQL evaluates, so that fewer rows are read.

Spark evaluates each condition again, so the rows that are read may include others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from psycopg import sql

from pgq.spark._log import Bounds

# The SQL operators of Spark's filters, by the names of their classes (since Spark 4.1).
COMPARED: Final = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
NUMBERS: Final = {"id": "id", "priority": "priority", "timestamp": "published_at"}
# Spark sorts texts differently, so texts are only compared for equality.
TEXTS: Final = {"topic": "topic", "key": "group_key"} | {
    name: name for name in ("sender", "recipient", "reply_to", "correlation_id")
}


def conditions(filters: Sequence[Any]) -> str:
    """Return the filters that PostgreSQL can evaluate, as SQL to append to other conditions."""
    return "".join(f" and {text}" for text in map(condition, filters) if text is not None)


def condition(filter: Any) -> str | None:
    """Return a filter as a condition in SQL; None if only Spark can evaluate it."""
    (name, *inside), kind = getattr(filter, "attribute", ("",)), type(filter).__name__
    value: Any = getattr(filter, "value", None)
    column = NUMBERS.get(name) or TEXTS.get(name)
    if inside or column is None:
        return None
    if kind in ("IsNull", "IsNotNull"):
        return f"{column} is {'' if kind == 'IsNull' else 'not '}null"
    if kind == "In" and all(is_plain(name, item) for item in value):
        return f"{column} in ({', '.join(map(literal, value))})"
    if kind in COMPARED and is_plain(name, value) and (name in NUMBERS or kind == "EqualTo"):
        return f"{column} {COMPARED[kind]} {literal(value)}"
    return None


def is_plain(name: str, value: Any) -> bool:
    """Whether a value has the type of the column."""
    if name == "timestamp":
        return isinstance(value, datetime)
    return isinstance(value, str if name in TEXTS else int) and not isinstance(value, bool)


def literal(value: Any) -> str:
    if isinstance(value, datetime):
        value = in_utc(value)
    return sql.Literal(value).as_string(None)


def in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def narrowed(bounds: Bounds, filters: Sequence[Any]) -> Bounds:
    """Return the bounds of the log, narrowed to the ids and times of the filters."""
    for filter in filters:
        (name, *inside), kind = getattr(filter, "attribute", ("",)), type(filter).__name__
        value: Any = getattr(filter, "value", None)
        if inside or kind not in COMPARED or not is_plain(name, value):
            continue
        starts, ends = not kind.startswith("Less"), not kind.startswith("Greater")
        if name == "id":
            if starts:
                bounds = replace(bounds, low=max(bounds.low, value))
            if ends:
                bounds = replace(bounds, high=smaller(bounds.high, value + 1))
        elif name == "timestamp":
            value = in_utc(value)
            if starts:
                since = value if bounds.since is None else max(bounds.since, value)
                bounds = replace(bounds, since=since)
            if ends:
                bounds = replace(
                    bounds, until=smaller(bounds.until, value + timedelta(microseconds=1))
                )
    return bounds


def smaller(known: Any, value: Any) -> Any:
    return value if known is None else min(known, value)
