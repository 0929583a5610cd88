"""The parser: it turns a filter document into a test.

A document may have 100 nodes. The extension counts nodes by what a test costs, and so does the
parser: both must refuse the same documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pgq.matching.policy import Condition, Part, Policy, joined
from pgq.matching.text import TEXT, double_star, network_test, regex_test, text_nodes, text_test
from pgq.matching.values import (
    LARGEST,
    ORDER,
    SMALLEST,
    check_list,
    contains,
    contains_at_top,
    equal,
    flat,
    json_type,
    moment,
    order,
    scalar,
    structure,
)
from pgq.matching.world import Location, Message, Passes, Test, World, always, require

__all__ = ["compile_filter", "loads", "matches"]

SCOPES = ("headers", "payload", "msg")
FIELDS = (
    "topic", "priority", "sender", "recipient", "reply_to", "correlation_id", "group_key",
    "attempt", "published_at", "expires_at", "id",
)  # fmt: skip
LOGIC = ("$and", "$or", "$nor", "$not", "$const")
NEGATIVE = {"$ne": "$eq", "$nin": "$in", "$nlike": "$like"}
FOR_TIMES = (
    "$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$between", "$exists", "$isNull",
)  # fmt: skip
# The operators of SNS and EventBridge, which are written in lists.
POLICY_TEXT = {
    "prefix": "$prefix",
    "suffix": "$suffix",
    "equals-ignore-case": "$ieq",
    "wildcard": "$wildcard",
}
POLICY = (*POLICY_TEXT, "cidr", "exists", "numeric", "anything-but")
# Operators that count for three nodes: they take three times as long as an equality.
SLOWER = {*ORDER, *NEGATIVE, "$between", "$isNull", "$mod", "$size"}
NUMERIC = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}


def operator_nodes(operator: str, operand: Any, location: Location) -> int:
    """Return the nodes of an operator, without those for the length of its operand."""
    if operator == "$all" and isinstance(operand, list):
        return 3 * len(operand) + 2 * (location.scope == "msg")
    structured = operator == "$eq" and isinstance(operand, list | dict) and not location.is_time
    nodes = 3 if operator in SLOWER or structured else 1
    if operator in ("$contains", "$elemMatch"):
        nodes = 5
    return nodes + 2 * (location.scope == "msg")


def value_nodes(values: list[Any]) -> int:
    """Return the nodes of a list: few values are compared one by one, many are searched."""
    return min(len(values), 8) + len(values) // 20


class Parser:
    """Parses one document: returns a test for each part, and counts the nodes."""

    def __init__(self) -> None:
        self.nodes = 0
        self.backwards = False

    def count(self) -> None:
        self.nodes += 1

    def count_texts(self, texts: list[tuple[str, str]]) -> None:
        nodes, backwards = text_nodes(texts)
        self.nodes += nodes
        self.backwards = self.backwards or backwards

    def block(self, block: Any, scope: str | None, prefix: tuple[str, ...], depth: int) -> Part:
        if block is None:
            return Part(always)
        require(isinstance(block, dict), "filter must be an object")
        require(depth <= 8, "too deep")
        if "$path" in block:
            return self.named_by_path(block, scope, prefix, depth)
        parts = [self.member(k, v, scope, prefix, depth) for k, v in block.items()]
        tests = [part.test for part in parts if part.test is not always]
        policies = [part.policy for part in parts if part.policy is not None]
        return Part(
            (lambda world: all(t(world) for t in tests)) if tests else always,
            joined(True, policies) if policies else None,
            "item" if scope == "item" else "payload",
        )

    def named_by_path(
        self, block: dict[str, Any], scope: str | None, prefix: tuple[str, ...], depth: int
    ) -> Part:
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
        return self.test(rest, self.location(scope, prefix + tuple(keys)), depth)

    def member(
        self, key: str, value: Any, scope: str | None, prefix: tuple[str, ...], depth: int
    ) -> Part:
        if key in ("$and", "$or", "$nor", "$not"):
            return self.logic(key, value, scope, prefix, depth + 1)
        if key == "$const":
            require(isinstance(value, bool), "$const")
            self.count()
            return Part(always if value else lambda world: False)
        require(not key.startswith("$"), "operator outside a field")
        if scope is None and key in SCOPES:
            require(isinstance(value, dict), "scope block")
            return self.block(value, key, (), depth + 1)
        return self.test(value, self.name(key, scope, prefix), depth)

    def logic(
        self, key: str, value: Any, scope: str | None, prefix: tuple[str, ...], depth: int
    ) -> Part:
        self.count()
        if key != "$not":
            check_list(value, scalars=False)
        parts = []
        for child in [value] if key == "$not" else value:
            if key == "$or" and isinstance(child, dict):
                for name, operand in child.items():
                    reserved = name in (*POLICY, "exactly") and not isinstance(operand, dict)
                    require(not reserved, "an operator is no field")
            parts.append(self.block(child, scope, prefix, depth))
        if key == "$or" and all(part.test is always for part in parts):
            if any(part.policy is None for part in parts):
                return Part(always)
            policies = [part.policy for part in parts if part.policy is not None]
            return Part(always, joined(False, policies), parts[0].scope)
        tests = [part.close() for part in parts]
        if key == "$and":
            return Part(lambda world: all(t(world) for t in tests))
        if key == "$or":
            return Part(lambda world: any(t(world) for t in tests))
        return Part(lambda world: not any(t(world) for t in tests))

    def name(self, name: str, scope: str | None, prefix: tuple[str, ...]) -> Location:
        keys = name.split(".")
        if scope is None:
            if keys[0] in SCOPES and len(keys) > 1:
                scope, keys = str(keys[0]), keys[1:]
            else:
                require(len(keys) == 1, "unknown scope")
                scope = "headers"
        require(all(1 <= len(k) <= 128 and k[0] != "$" for k in keys), "key")
        return self.location(scope, prefix + tuple(keys))

    def location(self, scope: str, path: tuple[str, ...]) -> Location:
        require(len(path) <= 16, "path too long")
        require(scope != "headers" or len(path) == 1, "headers have no parts")
        require(scope != "msg" or (len(path) == 1 and path[0] in FIELDS), "msg field")
        return Location(scope, path)

    def test(self, test: Any, location: Location, depth: int) -> Part:
        require(depth <= 8, "too deep")
        if not isinstance(test, dict):
            return self.any_of(test if isinstance(test, list) else [test], location)
        require(test != {}, "empty test")
        operators = [k for k in test if k.startswith("$") and k not in (*LOGIC, "$path")]
        if not operators or "$path" in test:
            require(location.scope != "msg", "msg has no parts")
            if location.path:
                for name, operand in test.items():
                    outside = name in POLICY and scalar(operand)
                    require(not outside, "an operator of SNS must be in a list")
            return self.block(
                test, location.scope, location.path, depth + (1 if location.path else 0)
            )
        require(len(operators) == len(test), "mixed")
        tests = []
        for operator, operand in test.items():
            if operator == "$options" and "$regex" in test:
                continue
            self.nodes += operator_nodes(operator, operand, location)
            tests.append(self.operator(operator, operand, test.get("$options"), location, depth))
        require("$options" not in test or test["$options"] is not None, "options")
        return Part(lambda world: all(t(world) for t in tests))

    def any_of(self, alternatives: list[Any], location: Location) -> Part:
        """Parse a list of SNS or EventBridge; a single value is a list of one."""
        check_list(alternatives, scalars=False)
        self.backwards = False
        values = [a for a in alternatives if scalar(a)]
        others = [a for a in alternatives if not scalar(a)]
        require(all(isinstance(a, dict) and len(a) == 1 for a in others), "one operator")
        if location.scope == "msg":
            return Part(self.any_of_msg(values, others, location))
        self.nodes += value_nodes(values) + (0 if location.scope == "headers" else 2)
        tests: list[Passes] = [lambda v: any(equal(v, w) for w in values)] if values else []
        exists: set[bool] = set()
        texts: list[tuple[str, str]] = []
        unlike: list[Passes] = []
        for alternative in others:
            [(name, operand)] = alternative.items()
            if name in POLICY_TEXT or name == "cidr":
                tests.append(self.policy_text(name, operand, texts))
                continue
            self.nodes += 1 if name in ("exactly", "exists") else 3
            if name == "exists":
                require(isinstance(operand, bool), "exists")
                exists.add(operand)
            elif name == "anything-but":
                unlike.append(self.anything_but(operand))
            else:
                tests.append(self.comparison(name, operand))
        self.nodes += 1 if texts else 0
        self.count_texts(texts)
        if location.scope == "headers":
            return Part(self.any_of_header(tests, unlike, exists, location))
        tests += unlike
        if True in exists:
            tests.append(scalar)
        parts: list[Policy] = []
        if tests:
            plain = len(alternatives) > 100 or self.backwards
            parts.append(Condition(location.path, lambda v: any(t(v) for t in tests), plain))
        if False in exists:
            parts.append(Condition(location.path, None))
        return Part(always, joined(False, parts), location.scope)

    def any_of_header(
        self, tests: list[Passes], unlike: list[Passes], exists: set[bool], location: Location
    ) -> Test:
        def run(world: World) -> bool:
            values = location.values(world)
            return (
                bool(values) in exists
                or any(t(e) for v in values for e in flat(v, 1) for t in tests)
                or any(t(e) for v in values for e in flat(v, 4) for t in unlike)
            )

        return run

    def any_of_msg(
        self, values: list[Any], others: list[dict[str, Any]], location: Location
    ) -> Test:
        """Parse a list for a field of ``msg``, which is never an array; null means missing."""
        tests = []
        self.nodes += 2
        if values:
            self.count()
            tests.append(self.operator("$in", values, None, location, 1))
        texts: list[tuple[str, str]] = []
        for alternative in others:
            [(name, operand)] = alternative.items()
            if name == "exists":
                self.count()
                tests.append(self.operator("$exists", operand, None, location, 1))
                continue
            if name == "anything-but" and not isinstance(operand, dict):
                self.nodes += 3
                unlike = operand if isinstance(operand, list) else [operand]
                require({json_type(o) for o in unlike} in ({"string"}, {"number"}), "anything-but")
                tests.append(self.operator("$nin", unlike, None, location, 1))
                continue
            if name == "anything-but":
                self.nodes += 3
                tests.append(self.field_test(location, self.anything_but(operand)))
            elif name in POLICY_TEXT or name == "cidr":
                tests.append(self.field_test(location, self.policy_text(name, operand, texts)))
            else:
                self.nodes += 1 if name == "exactly" else 3
                tests.append(self.field_test(location, self.comparison(name, operand)))
            require(not location.is_time, "not for timestamps")
        self.nodes += 1 if texts else 0
        self.count_texts(texts)
        return lambda world: any(t(world) for t in tests)

    def field_test(self, location: Location, passes: Passes) -> Test:
        return self.whole_test(location, lambda value, world: value is not None and passes(value))

    def policy_text(self, name: str, operand: Any, texts: list[tuple[str, str]]) -> Passes:
        """Parse a text operator of a list, and append it to `texts`, whose nodes count later."""
        if name == "cidr":
            passes = network_test(operand)
            operator = "cidr"
        else:
            operator = POLICY_TEXT[name]
            if name in ("prefix", "suffix") and isinstance(operand, dict):
                require(set(operand) == {"equals-ignore-case"}, name)
                text = operand["equals-ignore-case"]
                require(isinstance(text, str), name)
                escaped = "".join("\\" + c if c in "\\%_" else c for c in text)
                operator = "$ilike"
                operand = escaped + "%" if name == "prefix" else "%" + escaped
            passes = text_test(operator, operand)
            require(operator != "$wildcard" or not double_star(operand), "**")
        texts.append((operator, operand))
        return lambda value: isinstance(value, str) and passes(value)

    def comparison(self, name: str, operand: Any) -> Passes:
        if name == "exactly":
            require(isinstance(operand, str), "exactly")
            return lambda value: equal(value, operand)
        require(name == "numeric", "unknown operator in a list")
        require(isinstance(operand, list) and len(operand) in (2, 4), "numeric")
        numbers = operand[1::2]
        require(all(json_type(n) == "number" for n in numbers), "numeric")
        require(all(n == 0 or SMALLEST <= abs(Decimal(n)) <= LARGEST for n in numbers), "double")
        if operand[0] == "=" and len(operand) == 2:
            return lambda value: equal(value, operand[1])
        require(all(isinstance(o, str) and o in NUMERIC for o in operand[::2]), "numeric")
        if len(operand) == 4:
            require([o[0] for o in operand[::2]] == [">", "<"], "lower bound first")
            require(numbers[0] < numbers[1], "empty range")
        bounds = [(NUMERIC[o], n) for o, n in zip(operand[::2], numbers, strict=True)]
        return lambda value: all(order(o, value, n) for o, n in bounds)

    def anything_but(self, operand: Any) -> Passes:
        name = None
        if isinstance(operand, dict):
            require(len(operand) == 1 and set(operand) <= set(POLICY_TEXT), "anything-but")
            [(name, operand)] = operand.items()
        operands = operand if isinstance(operand, list) else [operand]
        check_list(operands, scalars=False)
        if name is None:
            kinds = {json_type(o) for o in operands}
            require(kinds in ({"string"}, {"number"}), "anything-but")
            self.nodes += value_nodes(operands) - 1
            return lambda value: scalar(value) and not any(equal(value, o) for o in operands)
        require(all(isinstance(o, str) for o in operands), "anything-but")
        require(name not in ("prefix", "suffix") or "" not in operands, "empty prefix")
        texts: list[tuple[str, str]] = []
        tests = [self.policy_text(name, o, texts) for o in operands]
        self.count_texts(texts)
        return lambda value: scalar(value) and not any(t(value) for t in tests)

    def element_test(self, location: Location, passes: Callable[[Any, World], bool]) -> Test:
        """Return a test that passes for the field itself, or for any element of an array."""

        def run(world: World) -> bool:
            values = location.values(world)
            if location.any_element:
                values = [e for v in values for e in (v if isinstance(v, list) else [v])]
            return any(passes(v, world) for v in values)

        return run

    def whole_test(self, location: Location, passes: Callable[[Any, World], bool]) -> Test:
        return lambda world: any(passes(v, world) for v in location.values(world))

    def operator(
        self, operator: str, operand: Any, options: Any, location: Location, depth: int
    ) -> Test:
        require(not location.is_time or operator in FOR_TIMES, "not for timestamps")
        if operator in NEGATIVE:
            positive = self.operator(NEGATIVE[operator], operand, None, location, depth)
            return lambda world: (
                any(v is not None for v in location.values(world)) and not positive(world)
            )
        if operator in ("$eq", "$in"):
            return self.equality(operator, operand, location)
        if operator in ORDER or operator == "$between":
            return self.ordered(operator, operand, location)
        if operator in TEXT or operator == "$regex":
            passes = (
                regex_test(operand, options)
                if operator == "$regex"
                else text_test(operator, operand)
            )
            name = "$iregex" if options == "i" else operator
            self.count_texts([(name, operand)])
            return self.element_test(
                location, lambda value, world: isinstance(value, str) and passes(value)
            )
        if operator in ("$exists", "$isNull"):
            require(isinstance(operand, bool), operator)
            if operator == "$isNull" or location.scope == "msg":
                wanted = operand if operator == "$isNull" else not operand
                return lambda world: all(v is None for v in location.values(world)) == wanted
            return lambda world: bool(location.values(world)) == operand
        if operator == "$type":
            names = ("string", "number", "boolean", "null", "array", "object")
            require(isinstance(operand, str) and operand in names, "$type")
            return self.whole_test(location, lambda value, world: json_type(value) == operand)
        if operator == "$mod":
            require(isinstance(operand, list) and len(operand) == 2, "$mod")
            require(all(json_type(n) == "number" for n in operand), "$mod")
            divisor, remainder = map(Fraction, operand)
            require(divisor != 0 and divisor % 1 == 0 == remainder % 1, "$mod")
            return self.element_test(
                location,
                lambda value, world: (
                    json_type(value) == "number"
                    and Fraction(value) - int(Fraction(value) / divisor) * divisor == remainder
                ),
            )
        return self.array_operator(operator, operand, location, depth)

    def equality(self, operator: str, operand: Any, location: Location) -> Test:
        if operator == "$in":
            check_list(operand)
            self.nodes += value_nodes(operand) - 1
        is_now = isinstance(operand, dict) and "$now" in operand
        require(not is_now or location.is_time, "$now elsewhere")
        wanted = operand if operator == "$in" else [operand]
        if location.is_time:
            moments = [None if w is None else moment(w) for w in wanted]
            return self.whole_test(
                location,
                lambda value, world: any(
                    value is None if m is None else value is not None and value == m(world)
                    for m in moments
                ),
            )
        if operator == "$eq" and isinstance(operand, list | dict):
            self.nodes += 4 * max(structure(operand), 1) - 4
        if isinstance(operand, list) and operator == "$eq":
            return self.whole_test(location, lambda value, world: equal(value, operand))
        return self.element_test(
            location, lambda value, world: any(equal(value, w) for w in wanted)
        )

    def ordered(self, operator: str, operand: Any, location: Location) -> Test:
        if operator == "$between":
            require(isinstance(operand, list) and len(operand) == 2, "$between")
            bounds = [("$gte", operand[0]), ("$lte", operand[1])]
        else:
            bounds = [(operator, operand)]
        if location.is_time:
            moments = [(o, moment(b)) for o, b in bounds]
            return self.whole_test(
                location,
                lambda value, world: all(order(o, value, m(world)) for o, m in moments),
            )
        require(all(json_type(b) in ("number", "string") for _, b in bounds), "order")
        require(len({json_type(b) for _, b in bounds}) == 1, "one type")
        return self.element_test(
            location, lambda value, world: all(order(o, value, b) for o, b in bounds)
        )

    def array_operator(self, operator: str, operand: Any, location: Location, depth: int) -> Test:
        if operator == "$all":
            check_list(operand, scalars=False)
            self.nodes += 3 * (structure(operand) - len(operand))
            return self.whole_test(
                location,
                lambda value, world: (
                    isinstance(value, list)
                    and all(any(equal(e, w) for e in value) for w in operand)
                ),
            )
        if operator == "$size":
            require(json_type(operand) == "number" and operand >= 0, "$size")
            require(Fraction(operand) % 1 == 0, "$size")
            return self.whole_test(
                location, lambda value, world: isinstance(value, list) and len(value) == operand
            )
        if operator == "$contains":
            self.nodes += 4 * max(structure(operand), 1) - 4
            require(operand is not None, "$contains null")
            if isinstance(operand, list):
                return self.whole_test(location, lambda value, world: contains(value, operand))
            if location.any_element:
                return self.element_test(location, lambda value, world: contains(value, operand))
            return self.whole_test(location, lambda value, world: contains_at_top(value, operand))
        require(operator == "$elemMatch", "unknown operator")
        require(isinstance(operand, dict), "$elemMatch")
        test = self.test(operand, Location("item", ()), depth + 1).close()
        return self.whole_test(
            location,
            lambda value, world: (
                isinstance(value, list)
                and any(test(World(world.message, world.now, e)) for e in value)
            ),
        )


def compile_filter(document: Any) -> Test:
    """Return the test of a filter document; raise `InvalidFilter` if it is not valid."""
    text = json.dumps(document, ensure_ascii=False, default=str)
    require(len(text.encode()) <= 65536, "document too large")
    parser = Parser()
    test = parser.block(document, None, (), 1).close()
    require(parser.nodes <= 100, "too many nodes")
    return test


def loads(text: str) -> Any:
    """Decode JSON with exact numbers: Decimal instead of float."""
    return json.loads(text, parse_float=Decimal)


def matches(document: Any, message: Message, now: Decimal | int = 0) -> bool:
    """Whether the message matches the filter document."""
    return compile_filter(document)(World(message, Decimal(now)))
