"""Filter documents, written with the operators of Python.

>>> (F.type == "paid") & (F.payload.amount > 100)
Condition({"$and": [{"type": "paid"}, {"payload.amount": {"$gt": 100}}]})
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pgq.durations import Duration, duration
from pgq.errors import InvalidFilter

__all__ = ["Condition", "F", "Field", "Filter", "ago", "document"]

_KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,127}")
_SCOPES = ("headers", "payload", "msg")


class Condition:
    """A filter document that can be combined with others by ``&``, ``|`` and ``~``.

    >>> (F.type == "paid") & ~F.region.in_(["APAC"])
    """

    __slots__ = ("document",)

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def __and__(self, other: Condition) -> Condition:
        return Condition({"$and": [*self._parts("$and"), *other._parts("$and")]})

    def __or__(self, other: Condition) -> Condition:
        return Condition({"$or": [*self._parts("$or"), *other._parts("$or")]})

    def __invert__(self) -> Condition:
        return Condition({"$not": self.document})

    def _parts(self, operator: str) -> list[Any]:
        if list(self.document) == [operator]:
            return list(self.document[operator])
        return [self.document]

    def __bool__(self) -> bool:
        raise TypeError("combine conditions with & | ~ in parentheses, not with and, or, not")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self.document == other.document

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Condition({json.dumps(self.document)})"


Filter = Condition | Mapping[str, Any] | str | None


class Field:
    """A header, a field of the payload, or a field of the message; comparing it makes a condition.

    A name alone is a header: ``F.type``. Fields of the payload are ``F.payload.amount``, fields of
    the message ``F.msg.priority``. Names that are methods, or that are not names in Python, go into
    brackets: ``F.payload["like"]``, ``F["x-id"]``.
    """

    __slots__ = ("_path",)

    def __init__(self, path: tuple[str, ...] = ()) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Field:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str) -> Field:
        return Field((*self._path, key))

    def __repr__(self) -> str:
        return ".".join(("F", *self._path))

    # Comparisons

    def __eq__(self, value: object) -> Condition:  # type: ignore[override]
        value = _operand(value)
        plain = value is None or isinstance(value, str | int | float)
        return self._test(value if plain else {"$eq": value})

    def __ne__(self, value: object) -> Condition:  # type: ignore[override]
        return self._operator("$ne", value)

    def __gt__(self, value: Any) -> Condition:
        return self._operator("$gt", value)

    def __ge__(self, value: Any) -> Condition:
        return self._operator("$gte", value)

    def __lt__(self, value: Any) -> Condition:
        return self._operator("$lt", value)

    def __le__(self, value: Any) -> Condition:
        return self._operator("$lte", value)

    __hash__ = None  # type: ignore[assignment]

    def between(self, low: Any, high: Any) -> Condition:
        """At least `low` and at most `high`."""
        return self._operator("$between", [low, high])

    def in_(self, values: Iterable[Any]) -> Condition:
        """Equal to one of the values."""
        return self._operator("$in", _values(values))

    def not_in(self, values: Iterable[Any]) -> Condition:
        """The field exists and equals none of the values."""
        return self._operator("$nin", _values(values))

    # Text

    def like(self, pattern: str) -> Condition:
        """As LIKE in SQL: % is any text, _ any character."""
        return self._operator("$like", pattern)

    def not_like(self, pattern: str) -> Condition:
        """As NOT LIKE in SQL; the field must exist."""
        return self._operator("$nlike", pattern)

    def ilike(self, pattern: str) -> Condition:
        """As ILIKE in PostgreSQL: LIKE that ignores case."""
        return self._operator("$ilike", pattern)

    def starts_with(self, text: str) -> Condition:
        """Begins with the text."""
        return self._operator("$prefix", text)

    def ends_with(self, text: str) -> Condition:
        """Ends with the text."""
        return self._operator("$suffix", text)

    def has_text(self, text: str) -> Condition:
        """Contains the text."""
        return self._operator("$substr", text)

    def ieq(self, text: str) -> Condition:
        """Equal, ignoring case."""
        return self._operator("$ieq", text)

    def wildcard(self, pattern: str) -> Condition:
        """Matches a pattern in which * is any text."""
        return self._operator("$wildcard", pattern)

    def regex(self, pattern: str, *, ignore_case: bool = False) -> Condition:
        """Contains a match of a regular expression of PostgreSQL."""
        if ignore_case:
            return self._test({"$regex": pattern, "$options": "i"})
        return self._operator("$regex", pattern)

    def matches_topic(self, pattern: str) -> Condition:
        """Matches a topic pattern of words and dots: * is one word, # any number of words."""
        return self._operator("$topic", pattern)

    # Presence, type, arrays

    def exists(self, there: bool = True) -> Condition:
        """The field exists; with False, the field does not exist."""
        return self._operator("$exists", there)

    def is_null(self, null: bool = True) -> Condition:
        """The field is missing or null; with False, the field has a value."""
        return self._operator("$isNull", null)

    def has_type(self, name: str) -> Condition:
        """Has this JSON type: string, number, boolean, array, object or null."""
        return self._operator("$type", name)

    def has_all(self, values: Iterable[Any]) -> Condition:
        """Is an array that contains all of the values."""
        return self._operator("$all", _values(values))

    def has_size(self, size: int) -> Condition:
        """Is an array of this length."""
        return self._operator("$size", size)

    def elem_match(self, test: Mapping[str, Any]) -> Condition:
        """Is an array with an element that passes the test: operators, or a filter document."""
        return self._operator("$elemMatch", dict(test))

    def contains(self, value: Any) -> Condition:
        """Contains the value, as PostgreSQL's operator ``@>`` defines it for jsonb."""
        return self._operator("$contains", value)

    def has_remainder(self, divisor: int, remainder: int) -> Condition:
        """Is a number that leaves this remainder when divided by `divisor`."""
        return self._operator("$mod", [divisor, remainder])

    # Implementation

    def _operator(self, operator: str, operand: Any) -> Condition:
        return self._test({operator: _operand(operand)})

    def _test(self, test: Any) -> Condition:
        path = self._path
        if not path or (path[0] in _SCOPES and len(path) == 1):
            raise TypeError(f"{self!r} names no field")
        if all(_KEY.fullmatch(key) for key in path):
            return Condition({".".join(path): test})
        full = path if path[0] in _SCOPES else ("headers", *path)
        operators = test if isinstance(test, dict) else {"$eq": test}
        return Condition({"$path": list(full), **operators})


F = Field()


def ago(span: Duration) -> dict[str, str]:
    """Return an operand for the times of ``F.msg``: the time that long before now.

    :param span: the duration.

    >>> F.msg.published_at < ago("1h")
    Condition({"msg.published_at": {"$lt": {"$now": "-3600.0 seconds"}}})
    """
    return {"$now": f"{-duration(span).total_seconds()} seconds"}


def document(filter: Filter) -> dict[str, Any] | None:
    """Return the document of a filter that is a condition, a dict, or JSON text."""
    if filter is None:
        return None
    if isinstance(filter, Condition):
        return filter.document
    if isinstance(filter, Mapping):
        return dict(filter)
    if isinstance(filter, Field):
        raise TypeError(f"{filter!r} is a field, not a filter: compare it with something")
    if not isinstance(filter, str):
        raise TypeError(f"a filter is a condition of F, a dict or JSON text, not {filter!r}")
    try:
        found = json.loads(filter)
    except ValueError:
        raise InvalidFilter(
            f"a filter that is text is JSON, which this is not: {filter}",
            hint='Write {"type": "paid"}, or F.type == "paid".',
        ) from None
    if not isinstance(found, dict):
        raise InvalidFilter(f"a filter is an object, not {filter}")
    return found


def _values(values: Iterable[Any]) -> list[Any]:
    if isinstance(values, str | bytes):
        raise TypeError(f'write a list of values: ["{values!s}"]')
    return list(values)


def _operand(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple | set | frozenset):
        return [_operand(item) for item in value]
    return value
