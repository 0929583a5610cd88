"""JSON of Python values: times, ids, exact numbers, dataclasses, models.

| Python | JSON |
|---|---|
| datetime, date, time | text in ISO 8601 |
| timedelta | a number of seconds |
| UUID | text |
| Decimal | a number, to the last digit |
| Enum | its value |
| dataclass, pydantic model | an object |

Other types that JSON does not have are refused.
"""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

__all__ = ["dumps", "plain"]

# Python's encoder cannot write a Decimal as a number. It is written as a text with this random
# prefix, and prefix and quotes are removed afterwards.
_MARK = uuid4().hex
_MARKED = re.compile(f'"{_MARK}([^"]*)"')


def plain(value: Any) -> Any:
    """Convert a value that JSON does not have."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a number in JSON")
        return f"{_MARK}{value}"
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        return value.total_seconds()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    model_dump = getattr(value, "model_dump", None)
    if model_dump is not None:
        return model_dump(mode="json", by_alias=True)
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("bytes are not JSON: write them as text, by base64 for example")
    raise TypeError(
        f"a {type(value).__name__} is not JSON: make it a dict, a list, a text or a number"
    )


_encode = json.JSONEncoder(default=plain, allow_nan=False).encode


def dumps(value: Any) -> str:
    """Return the JSON of a value, which may have the types listed in the module's docstring."""
    text = _encode(value)
    return _MARKED.sub(r"\1", text) if _MARK in text else text
