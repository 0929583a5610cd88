"""Checks and conversions of arguments, with errors of one sentence."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

from pgq.durations import aware, moment
from pgq.filters import Filter
from pgq.message import Message

__all__ = [
    "Named",
    "aware",
    "check_client",
    "check_flags",
    "check_functions",
    "check_headers",
    "check_numbers",
    "check_texts",
    "headers_of_each",
    "how_many",
    "ids",
    "items",
    "lease_and_ids",
    "moment",
    "names",
]

#: Messages or their ids; None for all.
Named = Message | int | Iterable[Message | int] | None


def names(value: Iterable[str] | None, what: str) -> list[str] | None:
    """Return a list of names; a text is one name."""
    if value is None:
        return None
    if isinstance(value, str):
        return [value]
    found = list(value) if isinstance(value, Iterable) else None
    if found is None or not all(isinstance(one, str) for one in found):
        raise TypeError(f"{what} is a list of names, not {value!r}")
    return found


def items(value: Iterable[Any], what: str) -> list[Any]:
    """Return the items as a list; a text or a dict is refused."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{what} is a list with one item for each message, not {value!r}")
    return list(value)


def how_many(filter: Filter | int, n: int, default: int = 1) -> tuple[Filter, int]:
    """Return filter and n; a number in place of the filter is n."""
    wanted: Filter = None
    if isinstance(filter, int):
        if n != default:
            raise TypeError("n is given twice")
        n = filter
    else:
        wanted = filter
    check_numbers(n=n)
    return wanted, n


def ids(value: Named) -> list[int] | None:
    """Return the ids of messages, given as messages or ids."""
    if value is None:
        return None
    if isinstance(value, Message | int):
        value = [value]
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"give a message, its id, or several of them, not {value!r}")
    # Records of relays have an id as well.
    found: list[Any] = [one if isinstance(one, int) else getattr(one, "id", one) for one in value]
    for one in found:
        if type(one) is not int:
            check_numbers(id=one)
    return found


def lease_and_ids(lease_id: int | Message, messages: Named) -> tuple[int, list[int] | None]:
    """Return a lease id and message ids; a message in place of the lease id means this message."""
    if isinstance(lease_id, Message):
        return lease_id.lease_id, [lease_id.id] if messages is None else ids(messages)
    check_numbers(lease_id=lease_id)
    return lease_id, ids(messages)


def check_headers(headers: Any) -> None:
    """Raise if headers are not a dict."""
    if headers is not None and not isinstance(headers, Mapping):
        raise TypeError(f"headers are a dict, not {headers!r}")


def check_texts(**texts: Any) -> None:
    """Raise if an argument is neither text nor None."""
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is text, not {value!r}")


def check_numbers(**numbers: Any) -> None:
    """Raise if an argument is neither a whole number nor None."""
    for name, value in numbers.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, Integral)):
            raise TypeError(f"{name} is a whole number, not {value!r}")


def check_flags(**flags: Any) -> None:
    """Raise if one of these is neither True, False nor None."""
    for name, value in flags.items():
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"{name} is True or False, not {value!r}")


def check_functions(**functions: Any) -> None:
    """Raise if one of these is neither a function nor None."""
    for name, value in functions.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} is a function, not {value!r}")


def headers_of_each(headers: Any, size: int) -> list[dict[str, Any] | None]:
    """Return the headers of each message of a batch; a single dict applies to all."""
    if headers is None or isinstance(headers, dict):
        return [headers] * size
    return items(headers, "headers")


def check_client(client: Any, *, asynchronous: bool) -> None:
    """Raise if an argument is not a client of `connect` or `connect_async`."""
    wanted = "await pgq.connect_async(...)" if asynchronous else "pgq.connect(...)"
    if isinstance(client, str):
        raise TypeError(f"a connection string is given where a client is needed: {wanted}")
    if not hasattr(client, "breaker"):
        kind = type(client).__name__
        raise TypeError(f"a {kind} has no connections of its own: use a client of {wanted}")
    if inspect.iscoroutinefunction(client.claim) != asynchronous:
        kind = type(client).__name__
        raise TypeError(f"a {kind} is not for here: use a client of {wanted}")
