"""The filter language, evaluated a second time, plainly and without SQL.

For messages that are not in a database: an archive, a stream. Written from the description of the
language (extension/filter.md); it walks the document for every message and shares nothing with the
compiler of the extension. The tests compare both on random documents and messages, so that a
mistake would have to be made twice.

Numbers may be int or Decimal; a message field that is None is not set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pgq.errors import InvalidFilter

__all__ = ["Message", "World", "compile_filter", "loads", "matches"]

KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]*\Z")
SCOPES = ("headers", "payload", "msg")
TIMES = ("published_at", "expires_at")
FIELDS = (
    "topic", "priority", "sender", "recipient", "reply_to", "correlation_id", "group_key",
    "attempt", "published_at", "expires_at", "id",
)  # fmt: skip
LOGIC = ("$and", "$or", "$nor", "$not", "$const")
NEGATIVE = {"$ne": "$eq", "$nin": "$in", "$nlike": "$like"}
TEXT = ("$like", "$ilike", "$prefix", "$suffix", "$substr", "$ieq", "$wildcard", "$topic")
FOR_TIMES = (
    "$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$between", "$exists", "$isNull",
)  # fmt: skip
ORDER = {"$gt", "$gte", "$lt", "$lte"}
SNS_TEXT = {
    "prefix": "$prefix",
    "suffix": "$suffix",
    "equals-ignore-case": "$ieq",
    "wildcard": "$wildcard",
}

MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?\Z"
)
INTERVAL = re.compile(r"\s*([+-]?\d+) ?(s|seconds?|minutes?|hours?|days?|weeks?)\s*\Z")
# Escapes and classes that only one of PostgreSQL and Python has, or that differ.
UNSHARED = re.compile(r"\\[mMyYAZBbCcuUxN0]|\[\[[:.=]|\(\?(?![:=!])|\*\*\*")
UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise InvalidFilter(reason)


@dataclass
class Message:
    headers: dict[str, Any] = field(default_factory=dict)
    payload: Any = None
    msg: dict[str, Any] = field(default_factory=dict)


@dataclass
class Place:
    """Where a test looks: a scope of the message, or an element of an array."""

    scope: str
    path: tuple[str, ...]

    @property
    def is_time(self) -> bool:
        return self.scope == "msg" and self.path[0] in TIMES

    @property
    def any_element(self) -> bool:
        return self.scope == "payload" or (self.scope == "item" and self.path != ())

    def values(self, world: World) -> list[Any]:
        if self.scope == "msg":
            return [world.message.msg.get(self.path[0])]
        if self.scope == "headers":
            node = world.message.headers
            for key in self.path:
                if not isinstance(node, dict) or key not in node:
                    return []
                node = node[key]
            return [node]
        nodes = [world.item if self.scope == "item" else world.message.payload]
        for key in self.path:
            below = [
                part for node in nodes for part in (node if isinstance(node, list) else [node])
            ]
            nodes = [part[key] for part in below if isinstance(part, dict) and key in part]
        return nodes


@dataclass
class World:
    message: Message
    now: Decimal
    item: Any = None


Test = Callable[[World], bool]


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
    """Jsonb's @> below the top level."""
    if isinstance(left, dict) and isinstance(right, dict):
        return all(k in left and contains(left[k], v) for k, v in right.items())
    if isinstance(left, list) and isinstance(right, list):
        return all(any(contains(e, v) for e in left) for v in right)
    return equal(left, right)


def contains_at_top(left: Any, right: Any) -> bool:
    if isinstance(left, list) and not isinstance(right, list | dict):
        return any(equal(e, right) for e in left)
    return contains(left, right)


def tokens(pattern: str, many: str, one: str, escapable: str | None) -> list[tuple[str, str]]:
    """A pattern as ('many'|'one'|'char', character) pairs."""
    result = []
    characters = iter(pattern)
    for c in characters:
        if c == "\\":
            c = next(characters, "")
            require(c != "" and (escapable is None or c in escapable), "stray backslash")
            result.append(("char", c))
        elif c == many:
            result.append(("many", c))
        elif c == one:
            result.append(("one", c))
        else:
            result.append(("char", c))
    return result


def pattern_matches(pattern: list[tuple[str, str]], text: str) -> bool:
    places = {0}
    for kind, c in pattern:
        if kind == "many":
            places = set(range(min(places), len(text) + 1)) if places else places
        else:
            places = {p + 1 for p in places if p < len(text) and (kind == "one" or text[p] == c)}
    return len(text) in places


def topic_words(pattern: str) -> list[str]:
    words = pattern.split(".")
    require(all(words), "empty word")
    require(all(w in ("*", "#") or not set(w) & {"*", "#"} for w in words), "partial wildcard")
    return words


def words_match(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(words_match(pattern[1:], words[i:]) for i in range(len(words) + 1))
    return (
        bool(words)
        and words[0] != ""
        and pattern[0] in ("*", words[0])
        and words_match(pattern[1:], words[1:])
    )


def topic_matches(pattern: list[str], topic: str) -> bool:
    if set(pattern) == {"#"}:
        return True
    words = topic.split(".")
    return all(words) and words_match(pattern, words)


def text_test(operator: str, operand: Any) -> Callable[[str], bool]:
    require(isinstance(operand, str), "text operand")
    require(len(operand) <= 1024, "pattern too long")
    if operator == "$prefix":
        return lambda s: s.startswith(operand)
    if operator == "$suffix":
        return lambda s: s.endswith(operand)
    if operator == "$substr":
        return lambda s: operand in s
    if operator == "$ieq":
        return lambda s: s.lower() == operand.lower()
    if operator == "$topic":
        words = topic_words(operand)
        return lambda s: topic_matches(words, s)
    if operator == "$wildcard":
        pattern = tokens(operand, "*", "", "*\\")
        return lambda s: pattern_matches(pattern, s)
    if operator == "$ilike":
        pattern = [(kind, c.lower()) for kind, c in tokens(operand, "%", "_", None)]
        return lambda s: pattern_matches(pattern, s.lower())
    pattern = tokens(operand, "%", "_", None)
    return lambda s: pattern_matches(pattern, s)


def regex_test(operand: Any, options: Any) -> Callable[[str], bool]:
    """Regular expressions whose meaning Python and PostgreSQL share; others are refused."""
    require(isinstance(operand, str), "regex operand")
    require(options in (None, "", "i") and not isinstance(options, bool), "options")
    require(len(operand) <= 512, "regex too long")
    require(re.match(r"(?:[^\\]|\\[^1-9])*\\[1-9]", operand, re.DOTALL) is None, "back-reference")
    require(UNSHARED.search(operand) is None, "only the server knows this regular expression")
    try:
        compiled = re.compile(
            operand.replace("$", r"\Z"),
            re.DOTALL | (re.IGNORECASE if options == "i" else re.NOFLAG),
        )
    except re.error as error:
        raise InvalidFilter(str(error)) from error
    return lambda s: compiled.search(s) is not None


def structure(value: Any) -> None:
    def measure(part: Any, level: int) -> int:
        require(level <= 8, "operand too deep")
        if isinstance(part, dict):
            return 1 + sum(measure(v, level + 1) for v in part.values())
        if isinstance(part, list):
            return 1 + sum(measure(v, level + 1) for v in part)
        return 1

    require(measure(value, 0) <= 1001, "operand too large")


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


class Parser:
    """One document; a test for each part of it, and the number of nodes in all."""

    def __init__(self) -> None:
        self.nodes = 0

    def count(self) -> None:
        self.nodes += 1

    def block(self, block: Any, scope: str | None, prefix: tuple[str, ...], depth: int) -> Test:
        if block is None:
            return lambda world: True
        require(isinstance(block, dict), "filter must be an object")
        require(depth <= 8, "too deep")
        if "$path" in block:
            return self.named_by_path(block, scope, prefix, depth)
        tests = [self.member(k, v, scope, prefix, depth) for k, v in block.items()]
        return lambda world: all(t(world) for t in tests)

    def named_by_path(
        self, block: dict[str, Any], scope: str | None, prefix: tuple[str, ...], depth: int
    ) -> Test:
        keys = block["$path"]
        require(isinstance(keys, list) and bool(keys), "$path")
        require(all(isinstance(k, str) for k in keys), "$path")
        if scope is None:
            require(keys[0] in SCOPES and len(keys) > 1, "$path")
            scope, keys = str(keys[0]), keys[1:]
        require(all(1 <= len(k) <= 128 for k in keys), "$path key")
        rest = {k: v for k, v in block.items() if k != "$path"}
        require(bool(rest), "$path without operator")
        require(all(k.startswith("$") and k not in LOGIC for k in rest), "$path with fields")
        return self.test(rest, self.place(scope, prefix + tuple(keys)), depth)

    def member(
        self, key: str, value: Any, scope: str | None, prefix: tuple[str, ...], depth: int
    ) -> Test:
        if key in ("$and", "$or", "$nor"):
            check_list(value, scalars=False)
            self.count()
            tests = [self.block(v, scope, prefix, depth + 1) for v in value]
            if key == "$and":
                return lambda world: all(t(world) for t in tests)
            if key == "$or":
                return lambda world: any(t(world) for t in tests)
            return lambda world: not any(t(world) for t in tests)
        if key == "$not":
            self.count()
            test = self.block(value, scope, prefix, depth + 1)
            return lambda world: not test(world)
        if key == "$const":
            require(isinstance(value, bool), "$const")
            self.count()
            return lambda world: value
        require(not key.startswith("$"), "operator outside a field")
        if scope is None and key in SCOPES:
            require(isinstance(value, dict), "scope block")
            return self.block(value, key, (), depth + 1)
        return self.test(value, self.name(key, scope, prefix), depth)

    def name(self, name: str, scope: str | None, prefix: tuple[str, ...]) -> Place:
        keys = name.split(".")
        if scope is None:
            if keys[0] in SCOPES and len(keys) > 1:
                scope, keys = str(keys[0]), keys[1:]
            else:
                require(len(keys) == 1, "unknown scope")
                scope = "headers"
        require(all(KEY.match(k) and len(k) <= 128 for k in keys), "key")
        return self.place(scope, prefix + tuple(keys))

    def place(self, scope: str, path: tuple[str, ...]) -> Place:
        require(len(path) <= 16, "path too long")
        require(scope != "msg" or (len(path) == 1 and path[0] in FIELDS), "msg field")
        return Place(scope, path)

    def test(self, test: Any, place: Place, depth: int) -> Test:
        require(depth <= 8, "too deep")
        if isinstance(test, list):
            return self.any_of(test, place)
        if not isinstance(test, dict):
            self.count()
            return self.operator("$eq", test, None, place, depth)
        require(test != {}, "empty test")
        operators = [k for k in test if k.startswith("$") and k not in (*LOGIC, "$path")]
        if not operators or "$path" in test:
            require(place.scope != "msg", "msg has no parts")
            return self.block(test, place.scope, place.path, depth + (1 if place.path else 0))
        require(len(operators) == len(test), "mixed")
        tests = []
        for operator, operand in test.items():
            if operator == "$options" and "$regex" in test:
                continue
            self.count()
            tests.append(self.operator(operator, operand, test.get("$options"), place, depth))
        require("$options" not in test or test["$options"] is not None, "options")
        return lambda world: all(t(world) for t in tests)

    def any_of(self, alternatives: list[Any], place: Place) -> Test:
        check_list(alternatives, scalars=False)
        scalars = [a for a in alternatives if not isinstance(a, list | dict)]
        tests = []
        if scalars:
            self.count()
            tests.append(self.operator("$in", scalars, None, place, 1))
        for alternative in alternatives:
            if isinstance(alternative, list | dict):
                self.count()
                tests.append(self.alternative(alternative, place))
        return lambda world: any(t(world) for t in tests)

    def alternative(self, alternative: Any, place: Place) -> Test:
        """An operator object of SNS or EventBridge."""
        require(isinstance(alternative, dict) and len(alternative) == 1, "one operator")
        [(name, operand)] = alternative.items()
        if name in ("prefix", "suffix") and isinstance(operand, dict):
            require(set(operand) == {"equals-ignore-case"}, name)
            text = operand["equals-ignore-case"]
            require(isinstance(text, str), name)
            escaped = "".join("\\" + c if c in "\\%_" else c for c in text)
            pattern = escaped + "%" if name == "prefix" else "%" + escaped
            return self.operator("$ilike", pattern, None, place, 1)
        if name in SNS_TEXT:
            return self.operator(SNS_TEXT[name], operand, None, place, 1)
        if name == "exists":
            return self.operator("$exists", operand, None, place, 1)
        if name == "numeric":
            return self.numeric(operand, place)
        require(name == "anything-but", "unknown operator in a list")
        if not isinstance(operand, dict):
            values = operand if isinstance(operand, list) else [operand]
            return self.operator("$nin", values, None, place, 1)
        require(len(operand) == 1 and set(operand) <= set(SNS_TEXT), "anything-but")
        [(name, texts)] = operand.items()
        texts = texts if isinstance(texts, list) else [texts]
        check_list(texts)
        tests = [self.alternative({name: text}, place) for text in texts]
        return lambda world: (
            any(v is not None for v in place.values(world)) and not any(t(world) for t in tests)
        )

    def numeric(self, operand: Any, place: Place) -> Test:
        require(isinstance(operand, list) and len(operand) in (2, 4), "numeric")
        require(all(json_type(n) == "number" for n in operand[1::2]), "numeric")
        if operand[0] == "=" and len(operand) == 2:
            return self.operator("$eq", operand[1], None, place, 1)
        names = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
        require(all(isinstance(o, str) and o in names for o in operand[::2]), "numeric")
        require(len({o[0] for o in operand[::2]}) == len(operand) // 2, "numeric")
        require(not place.is_time, "a timestamp is not a number")
        bounds = [(names[o], n) for o, n in zip(operand[::2], operand[1::2], strict=True)]
        return self.element_test(
            place, lambda value, world: all(order(o, value, n) for o, n in bounds)
        )

    def element_test(self, place: Place, passes: Callable[[Any, World], bool]) -> Test:
        """The field itself, or any element of a payload array."""

        def run(world: World) -> bool:
            values = place.values(world)
            if place.any_element:
                values = [e for v in values for e in (v if isinstance(v, list) else [v])]
            return any(passes(v, world) for v in values)

        return run

    def whole_test(self, place: Place, passes: Callable[[Any, World], bool]) -> Test:
        return lambda world: any(passes(v, world) for v in place.values(world))

    def operator(self, operator: str, operand: Any, options: Any, place: Place, depth: int) -> Test:
        require(not place.is_time or operator in FOR_TIMES, "not for timestamps")
        if operator in NEGATIVE:
            positive = self.operator(NEGATIVE[operator], operand, None, place, depth)
            return lambda world: (
                any(v is not None for v in place.values(world)) and not positive(world)
            )
        if operator in ("$eq", "$in"):
            return self.equality(operator, operand, place)
        if operator in ORDER or operator == "$between":
            return self.ordered(operator, operand, place)
        if operator in TEXT or operator == "$regex":
            passes = (
                regex_test(operand, options)
                if operator == "$regex"
                else text_test(operator, operand)
            )
            return self.element_test(
                place, lambda value, world: isinstance(value, str) and passes(value)
            )
        if operator in ("$exists", "$isNull"):
            require(isinstance(operand, bool), operator)
            if operator == "$isNull" or place.scope == "msg":
                wanted = operand if operator == "$isNull" else not operand
                return lambda world: all(v is None for v in place.values(world)) == wanted
            return lambda world: bool(place.values(world)) == operand
        if operator == "$type":
            names = ("string", "number", "boolean", "null", "array", "object")
            require(isinstance(operand, str) and operand in names, "$type")
            return self.whole_test(place, lambda value, world: json_type(value) == operand)
        if operator == "$mod":
            require(isinstance(operand, list) and len(operand) == 2, "$mod")
            require(all(json_type(n) == "number" for n in operand), "$mod")
            divisor, remainder = map(Fraction, operand)
            require(divisor != 0 and divisor % 1 == 0 == remainder % 1, "$mod")
            return self.element_test(
                place,
                lambda value, world: (
                    json_type(value) == "number"
                    and Fraction(value) - int(Fraction(value) / divisor) * divisor == remainder
                ),
            )
        return self.array_operator(operator, operand, place, depth)

    def equality(self, operator: str, operand: Any, place: Place) -> Test:
        if operator == "$in":
            check_list(operand)
        is_now = isinstance(operand, dict) and "$now" in operand
        require(not is_now or place.is_time, "$now elsewhere")
        wanted = operand if operator == "$in" else [operand]
        if place.is_time:
            moments = [None if w is None else moment(w) for w in wanted]
            return self.whole_test(
                place,
                lambda value, world: any(
                    value is None if m is None else value is not None and value == m(world)
                    for m in moments
                ),
            )
        if operator == "$eq" and isinstance(operand, list | dict):
            structure(operand)
        if isinstance(operand, list) and operator == "$eq":
            return self.whole_test(place, lambda value, world: equal(value, operand))
        return self.element_test(place, lambda value, world: any(equal(value, w) for w in wanted))

    def ordered(self, operator: str, operand: Any, place: Place) -> Test:
        if operator == "$between":
            require(isinstance(operand, list) and len(operand) == 2, "$between")
            bounds = [("$gte", operand[0]), ("$lte", operand[1])]
        else:
            bounds = [(operator, operand)]
        if place.is_time:
            moments = [(o, moment(b)) for o, b in bounds]
            return self.whole_test(
                place,
                lambda value, world: all(order(o, value, m(world)) for o, m in moments),
            )
        require(all(json_type(b) in ("number", "string") for _, b in bounds), "order")
        require(len({json_type(b) for _, b in bounds}) == 1, "one type")
        return self.element_test(
            place, lambda value, world: all(order(o, value, b) for o, b in bounds)
        )

    def array_operator(self, operator: str, operand: Any, place: Place, depth: int) -> Test:
        if operator == "$all":
            check_list(operand, scalars=False)
            structure(operand)
            return self.whole_test(
                place,
                lambda value, world: (
                    isinstance(value, list)
                    and all(any(equal(e, w) for e in value) for w in operand)
                ),
            )
        if operator == "$size":
            require(json_type(operand) == "number" and operand >= 0, "$size")
            require(Fraction(operand) % 1 == 0, "$size")
            return self.whole_test(
                place, lambda value, world: isinstance(value, list) and len(value) == operand
            )
        if operator == "$contains":
            structure(operand)
            require(operand is not None, "$contains null")
            if isinstance(operand, list):
                return self.whole_test(place, lambda value, world: contains(value, operand))
            if place.any_element:
                return self.element_test(place, lambda value, world: contains(value, operand))
            return self.whole_test(place, lambda value, world: contains_at_top(value, operand))
        require(operator == "$elemMatch", "unknown operator")
        require(isinstance(operand, dict), "$elemMatch")
        test = self.test(operand, Place("item", ()), depth + 1)
        return self.whole_test(
            place,
            lambda value, world: (
                isinstance(value, list)
                and any(test(World(world.message, world.now, e)) for e in value)
            ),
        )


def compile_filter(document: Any) -> Test:
    """The document as a test of a world; InvalidFilter if it is none."""
    text = json.dumps(document, ensure_ascii=False, default=str)
    require(len(text.encode()) <= 65536, "document too large")
    parser = Parser()
    test = parser.block(document, None, (), 1)
    require(parser.nodes <= 256, "too many nodes")
    return test


def loads(text: str) -> Any:
    """Read JSON with the numbers that it says, not the nearest binary ones."""
    return json.loads(text, parse_float=Decimal)


def matches(document: Any, message: Message, now: Decimal | int = 0) -> bool:
    """Whether the document selects the message."""
    return compile_filter(document)(World(message, Decimal(now)))
