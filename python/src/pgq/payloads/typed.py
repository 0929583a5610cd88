"""Conversion between JSON and types: dataclasses, models of pydantic, lists, texts.

A type is any type hint: a dataclass, a model of pydantic, a TypedDict, an Enum, datetime, UUID,
Decimal, ``list[Order]``, ``str | None``. Fields that a dataclass does not have are left out, so
that a publisher can add fields before its consumers are updated.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Literal, NotRequired, TypeVar, Union, get_args, get_origin
from uuid import UUID

from pgq.encoding import dumps
from pgq.errors import PayloadError

__all__ = ["check_type", "is_typed", "name_of_type", "payload_as", "plain_of"]

T = TypeVar("T")


class _Mismatch(Exception):
    """A value does not have its type: the path of the value, and the problem."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path.lstrip('.')} {what}".strip())


def payload_as(kind: type[T] | Any, value: Any) -> T:
    """Convert JSON to a value of a type; raise `PayloadError` if it does not fit.

    :param kind: the type.
    :param value: a JSON value: a dict, a list, a text, a number.

    >>> payload_as(Order, message.payload)
    Order(amount=12)
    """
    try:
        made: T = _convert(kind, value, "")
    except _Mismatch as error:
        raise PayloadError(f"the payload is no {name_of_type(kind)}: {error}") from None
    return made


def check_type(kind: Any, what: str) -> None:
    """Raise if this is a value where a type is needed."""
    if is_typed(kind) or isinstance(kind, str | bytes | float | int | Mapping | list | tuple | set):
        raise TypeError(f"{what} is a type, not {kind!r}")


def is_typed(value: Any) -> bool:
    """Whether a value is a dataclass or a model of pydantic."""
    if isinstance(value, type):
        return False
    return dataclasses.is_dataclass(value) or hasattr(value, "model_dump_json")


def plain_of(kind: Any, value: Any) -> Any:
    """Return a value as plain JSON; raise `PayloadError` if it does not fit the type.

    :param kind: the type; None for the value's own type.
    :param value: a value of the type, or a JSON value that fits the type.
    """
    own = type(value) if kind is None else kind
    if hasattr(value, "model_dump_json"):
        text = value.model_dump_json(by_alias=True, warnings=False)
    else:
        text = dumps(value)
    payload_as(own, json.loads(text, parse_float=Decimal))
    return json.loads(text, parse_float=_exact)


def name_of_type(kind: Any) -> str:
    """Return the name of a type, for people."""
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _exact(text: str) -> float | Decimal:
    """Return a float if it has exactly the digits of the text, else a Decimal."""
    return float(text) if repr(float(text)) == text else Decimal(text)


def _convert(kind: Any, value: Any, path: str) -> Any:
    """Return a value of a type; raises `_Mismatch`."""
    origin = get_origin(kind)
    if kind is Any or kind is object or isinstance(kind, TypeVar):
        return value
    if origin is not None:
        return _generic(kind, origin, value, path)
    if isinstance(kind, typing.NewType):
        return _convert(kind.__supertype__, value, path)
    if typing.is_typeddict(kind):
        return _typed_dict(kind, value, path)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, path)
    if hasattr(kind, "model_validate"):
        return _model(kind, value, path)
    if kind is None or kind is type(None):
        return _checked(value is None, value, path, "null")
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _called(kind, value, path, f"one of {', '.join(str(one.value) for one in kind)}")
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        return scalar(value, path)
    if isinstance(kind, type):
        return _checked(isinstance(value, kind), value, path, kind.__name__)
    return value


def _generic(kind: Any, origin: Any, value: Any, path: str) -> Any:
    arguments = get_args(kind)
    if origin is typing.Annotated:
        return _convert(arguments[0], value, path)
    if origin is Literal:
        return _checked(value in arguments, value, path, f"one of {', '.join(map(str, arguments))}")
    if origin in (Union, types.UnionType):
        return _union(arguments, value, path)
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is ...):
        parts = _checked(isinstance(value, list), value, path, "an array")
        _checked(len(parts) == len(arguments), value, path, f"an array of {len(arguments)}")
        pairs = zip(arguments, parts, strict=True)
        return tuple(_convert(one, part, f"{path}[{n}]") for n, (one, part) in enumerate(pairs))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        whole = _checked(isinstance(value, dict), value, path, "an object")
        return {key: _convert(arguments[1], one, f"{path}.{key}") for key, one in whole.items()}
    parts = _checked(isinstance(value, list), value, path, "an array")
    made = [_convert(arguments[0], part, f"{path}[{n}]") for n, part in enumerate(parts)]
    return origin(made) if origin in (set, frozenset, tuple) else made


def _union(kinds: tuple[Any, ...], value: Any, path: str) -> Any:
    wrong: _Mismatch | None = None
    for kind in kinds:
        try:
            return _convert(kind, value, path)
        except _Mismatch as error:
            if kind is not type(None):
                wrong = wrong or error
    raise wrong or _Mismatch(path, f"is {_json_kind(value)}")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _dataclass(kind: Any, value: Any, path: str) -> Any:
    whole = _checked(isinstance(value, dict), value, path, "an object")
    hints, made = _hints(kind), {}
    for one in dataclasses.fields(kind):
        if not one.init:
            continue
        if one.name in whole:
            made[one.name] = _convert(hints[one.name], whole[one.name], f"{path}.{one.name}")
        elif one.default is one.default_factory is dataclasses.MISSING:
            raise _Mismatch(f"{path}.{one.name}", "is missing")
    return _called(lambda given: kind(**given), made, path, kind.__name__)


def _typed_dict(kind: Any, value: Any, path: str) -> Any:
    whole = _checked(isinstance(value, dict), value, path, "an object")
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        # With postponed annotations, __required_keys__ ignores NotRequired.
        optional = name not in kind.__required_keys__ or get_origin(hint) is NotRequired
        if not optional and name not in whole:
            raise _Mismatch(f"{path}.{name}", "is missing")
    hints = _hints(kind)
    return {
        name: _convert(hints[name], one, f"{path}.{name}") if name in hints else one
        for name, one in whole.items()
    }


def _model(kind: Any, value: Any, path: str) -> Any:
    try:
        return kind.model_validate_json(dumps(value))
    except ValueError as error:
        raise _Mismatch(path, str(error)) from None


def _called(make: Callable[[Any], Any], value: Any, path: str, wanted: str) -> Any:
    try:
        return make(value)
    except (ValueError, TypeError, ArithmeticError) as error:
        detail = f" ({error})" if isinstance(value, dict) else ""
        raise _Mismatch(path, f"is {_json_kind(value)}, not {wanted}{detail}") from None


def _checked(right: bool, value: Any, path: str, wanted: str) -> Any:
    if not right:
        raise _Mismatch(path, f"is {_json_kind(value)}, not {wanted}")
    return value


def _json_kind(value: Any) -> str:
    """Return the JSON type of a value, for errors: the value itself must not get into a log."""
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a text", dict: "an object", list: "an array"}
    return names.get(type(value), "a number")


def _text(make: Callable[[str], Any], wanted: str) -> Callable[[Any, str], Any]:
    def convert(value: Any, path: str) -> Any:
        return _called(make, _checked(isinstance(value, str), value, path, wanted), path, wanted)

    return convert


def _number(make: Callable[[Any], Any], *kinds: type) -> Callable[[Any, str], Any]:
    def convert(value: Any, path: str) -> Any:
        right = isinstance(value, kinds) and not isinstance(value, bool)
        wanted = "a whole number" if kinds == (int,) else "a number"
        return _called(make, _checked(right, value, path, wanted), path, wanted)

    return convert


def _decimal(value: Any) -> Decimal:
    return Decimal(str(value))


_SCALARS: dict[Any, Callable[[Any, str], Any]] = {
    str: lambda value, path: _checked(isinstance(value, str), value, path, "a text"),
    bool: lambda value, path: _checked(isinstance(value, bool), value, path, "a boolean"),
    int: _number(int, int),
    float: _number(float, int, float, Decimal),
    Decimal: _number(_decimal, int, float, Decimal, str),
    timedelta: _number(lambda value: timedelta(seconds=float(value)), int, float, Decimal),
    datetime: _text(datetime.fromisoformat, "a time"),
    date: _text(date.fromisoformat, "a date"),
    time: _text(time.fromisoformat, "a time of day"),
    UUID: _text(UUID, "a UUID"),
    list: lambda value, path: _checked(isinstance(value, list), value, path, "an array"),
    dict: lambda value, path: _checked(isinstance(value, dict), value, path, "an object"),
}
