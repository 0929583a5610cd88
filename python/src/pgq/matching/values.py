"""JSON values: types, equality, containment, order, times."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from pgq.errors import InvalidFilter
from pgq.matching.world import World, require

__all__ = [
    "LARGEST",
    "ORDER",
    "SMALLEST",
    "check_list",
    "contains",
    "contains_at_top",
    "equal",
    "flat",
    "json_type",
    "moment",
    "order",
    "scalar",
    "structure",
]

ORDER = {"$gt", "$gte", "$lt", "$lte"}
MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?\Z"
)
INTERVAL = re.compile(r"\s*([+-]?\d+) ?(s|seconds?|minutes?|hours?|days?|weeks?)\s*\Z")
SMALLEST = Decimal("4.9e-324")
LARGEST = Decimal("1.7976931348623157e308")
UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def scalar(value: Any) -> bool:
    return not isinstance(value, list | dict)


def flat(value: Any, levels: int) -> list[Any]:
    """Return the value, or the elements of an array, flattened by so many levels."""
    if not isinstance(value, list) or levels == 0:
        return [value]
    return [part for element in value for part in flat(element, levels - 1)]


def json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float | Decimal):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def equal(left: Any, right: Any) -> bool:
    if json_type(left) != json_type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    return bool(left == right)


def contains(left: Any, right: Any) -> bool:
    """Test containment as jsonb's ``@>`` does it below the top level."""
    if isinstance(left, dict) and isinstance(right, dict):
        return all(k in left and contains(left[k], v) for k, v in right.items())
    if isinstance(left, list) and isinstance(right, list):
        return all(any(contains(e, v) for e in left) for v in right)
    return equal(left, right)


def contains_at_top(left: Any, right: Any) -> bool:
    if isinstance(left, list) and not isinstance(right, list | dict):
        return any(equal(e, right) for e in left)
    return contains(left, right)


def structure(value: Any) -> int:
    """Return the number of values in an array or object; refuse one that is too large."""

    def measure(part: Any, level: int) -> int:
        require(level <= 8, "operand too deep")
        if isinstance(part, dict):
            return 1 + sum(measure(v, level + 1) for v in part.values())
        if isinstance(part, list):
            return 1 + sum(measure(v, level + 1) for v in part)
        return 1

    values = measure(value, 0) - 1
    require(values <= 1000, "operand too large")
    return values


def check_list(value: Any, scalars: bool = True) -> None:
    require(isinstance(value, list) and 1 <= len(value) <= 1000, "list")
    if scalars:
        require(not any(isinstance(v, list | dict) for v in value), "scalars")


def moment(operand: Any) -> Callable[[World], Decimal]:
    if isinstance(operand, dict):
        require(set(operand) == {"$now"} and isinstance(operand["$now"], str), "$now")
        match = INTERVAL.match(operand["$now"])
        require(match is not None, "interval")
        assert match is not None
        distance = int(match[1]) * UNIT[match[2][0]]
        return lambda world: world.now + distance
    require(isinstance(operand, str) and MOMENT.match(operand) is not None, "timestamp")
    try:
        parsed = datetime.fromisoformat(operand.replace(" +", "+").replace(" Z", "Z"))
    except ValueError as error:
        raise InvalidFilter(str(error)) from error
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    since = parsed - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = Decimal(since // timedelta(microseconds=1)) / 1_000_000
    return lambda world: seconds


def order(operator: str, value: Any, bound: Any) -> bool:
    if json_type(value) != json_type(bound):
        return False
    return bool(
        {
            "$gt": lambda: value > bound,
            "$gte": lambda: value >= bound,
            "$lt": lambda: value < bound,
            "$lte": lambda: value <= bound,
        }[operator]()
    )
