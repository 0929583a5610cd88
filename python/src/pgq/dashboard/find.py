"""The search field of the page: its text becomes a filter of pgq."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pgq.dashboard._request import numbers, refuse
from pgq.filters import Condition, F
from pgq.filters.builder import Field

__all__ = ["Wanted", "cause", "wanted"]


@dataclass(frozen=True)
class Wanted:
    """A search: messages that match a filter and contain a text; None is no condition."""

    filter: dict[str, Any] | None = None
    text: str | None = None


def wanted(by: str | None, find: str | None) -> Wanted:
    """Return a search, by text if not said otherwise."""
    find = (find or "").strip()
    if not find:
        return Wanted()
    match by or "text":
        case "text":
            return Wanted(text=find)
        case "id":
            ids = numbers({"ids": re.split(r"[\s,]+", find)}, "ids")
            return Wanted(F.msg.id.in_(ids or []).document)
        case "correlation":
            return Wanted((F.msg.correlation_id == find).document)
        case "group":
            return Wanted((F.msg.group_key == find).document)
        case "recipient":
            return Wanted((F.msg.recipient == find).document)
        case "sender":
            return Wanted((F.msg.sender == find).document)
        case "header":
            name, equals, value = find.partition("=")
            return Wanted(_test(F.headers[name.strip()], equals, value).document)
        case "payload":
            path, equals, value = find.partition("=")
            field = F.payload
            for key in path.strip().split("."):
                field = field[key]
            return Wanted(_test(field, equals, value).document)
        case "filter":
            return Wanted(_document(find))
        case _:
            return refuse(
                "find by text, id, correlation, group, recipient, sender, header, payload or filter"
            )


def _test(field: Field, equals: str, value: str) -> Condition:
    """Return the condition that a field exists, or that it equals a text or a JSON value."""
    if not equals:
        return field.exists()
    value = value.strip()
    try:
        other = json.loads(value)
    except ValueError:
        return _equal(field, value)
    if isinstance(other, str | dict | list):
        return _equal(field, other)
    return _equal(field, value) | _equal(field, other)


def _equal(field: Field, value: Any) -> Condition:
    test: Condition = field == value
    return test


def _document(find: str) -> dict[str, Any]:
    try:
        found = json.loads(find)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else refuse('a filter is a JSON object: {"key": 1}')


def cause(reason: str, error: str | None) -> dict[str, Any]:
    """Return the cause of dead letters as a filter for pgq.replay.

    :param error: the error of the dead letters, with the placeholders <id> and <n>.
    """
    if error is None:
        return {"reason": reason, "error": {"$exists": False}}
    pattern = re.sub(r"<id>|<n>", "%", re.sub(r"([\\%_])", r"\\\1", error))
    return {"reason": reason, "error": {"$like": pattern}}
