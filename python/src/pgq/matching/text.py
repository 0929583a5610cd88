"""Tests of texts: patterns, topics, regular expressions, networks."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import pairwise
from typing import Any

from pgq.errors import InvalidFilter
from pgq.matching.world import require

__all__ = [
    "TEXT",
    "double_star",
    "network_test",
    "regex_test",
    "text_nodes",
    "text_test",
    "topic_matches",
    "topic_words",
]

TEXT = ("$like", "$ilike", "$prefix", "$suffix", "$substr", "$ieq", "$wildcard", "$topic")
NETWORK = re.compile(r"([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:]*)/[0-9]{1,3}\Z")
LOOKAROUND = re.compile(r"(?:[^\[\\]|\\.|\[\^?\]?(?:[^\]\\]|\\.)*\])*\(\?<?[=!]", re.DOTALL)
# Escapes and classes that only PostgreSQL or only Python has, or that mean different things.
UNSHARED = re.compile(r"\\[mMyYAZBbCcuUxN0]|\[\[[:.=]|\(\?(?!:)|\*\*\*")


def tokens(pattern: str, many: str, one: str, escapable: str | None) -> list[tuple[str, str]]:
    """Return a pattern as pairs of a kind ('many', 'one' or 'char') and a character."""
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


def double_star(pattern: str) -> bool:
    kinds = [kind for kind, _ in tokens(pattern, "*", "", "*\\")]
    return any(a == b == "many" for a, b in pairwise(kinds))


def pattern_matches(pattern: list[tuple[str, str]], text: str) -> bool:
    positions = {0}
    for kind, c in pattern:
        if kind == "many":
            positions = set(range(min(positions), len(text) + 1)) if positions else positions
        else:
            positions = {
                p + 1 for p in positions if p < len(text) and (kind == "one" or text[p] == c)
            }
    return len(text) in positions


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
    wildcard = operator == "$wildcard"
    pattern = tokens(operand, "*", "", "*\\") if wildcard else tokens(operand, "%", "_", None)
    kinds = [kind for kind, _ in pattern]
    while kinds and kinds[-1] == "many":
        kinds.pop()
    require(len(kinds) - kinds.count("char") <= 12, "too many wildcards")
    if operator == "$ilike":
        folded = [(kind, c.lower()) for kind, c in pattern]
        return lambda s: pattern_matches(folded, s.lower())
    return lambda s: pattern_matches(pattern, s)


def is_regex(operator: str, operand: str) -> bool:
    """Whether the server evaluates this operator by a regular expression."""
    if operator == "$prefix":
        return False
    if operator == "$substr":
        return operand != ""
    if operator in ("$like", "$wildcard"):
        special, last = ("\\%_", "%") if operator == "$like" else ("\\*", "*")
        return any(c in special for c in operand.rstrip(last))
    return True


def is_ignoring(operator: str) -> bool:
    return operator in ("$ieq", "$ilike", "$iregex")


def search(operator: str, text: str) -> tuple[str, int]:
    """Return the plain text that a pattern begins with, and its nodes if it searches a text."""
    if operator in ("$suffix", "$substr"):
        return "", 7 + len(text) // 2
    if operator in ("$regex", "$iregex"):
        return "", 7 + 4 * sum(c in "?*+{|" for c in text) + copies(text) // 2
    if operator not in ("$like", "$ilike", "$wildcard"):
        return "", 0
    many, one = ("*", "") if operator == "$wildcard" else ("%", "_")
    kinds = [kind for kind, _ in tokens(text, many, one, None)]
    while kinds and kinds[-1] == "many":
        kinds.pop()
    head = "" if operator == "$ilike" else re.split(r"[*%_\\]", text, maxsplit=1)[0]
    if "many" not in kinds:
        return head, 0
    return head, 3 + 4 * kinds.count("many") + 14 * kinds.count("one") + len(text) // 2


def search_nodes(regexes: list[tuple[str, str]]) -> int:
    """Return the nodes of searching: the largest sum of patterns whose plain beginnings agree."""
    found = [search(operator, text) for operator, text in regexes]
    stack: list[tuple[str, int]] = []
    most = 0
    for head, nodes in sorted(found, key=lambda each: each[0].encode()):
        if nodes:
            while stack and not head.startswith(stack[-1][0]):
                stack.pop()
            stack.append((head, nodes))
            most = max(most, sum(weight for _, weight in stack))
            if most > 1000:
                break
    return 13 + most if most else 0


def text_nodes(tests: list[tuple[str, str]]) -> int:
    """Return the nodes of the patterns of a list, by number, length, case and searching."""
    regexes = [(o, text) for o, text in tests if is_regex(o, text)]
    points = 25 * len(tests)
    for operator, text in regexes:
        if operator == "cidr":
            points += 11000 if ":" in text else 3750
        else:
            points += len(text) * (12 if is_ignoring(operator) else 1)
    kinds = {is_ignoring(operator) for operator, _ in regexes}
    return (
        points // 500
        + 6 * len(kinds)
        + sum(search_nodes([r for r in regexes if is_ignoring(r[0]) == kind]) for kind in kinds)
    )


def network_test(operand: Any) -> Callable[[str], bool]:
    require(isinstance(operand, str) and NETWORK.match(operand) is not None, "cidr")
    try:
        network: IPv4Network | IPv6Network = ip_network(operand, strict=False)
    except ValueError as error:
        raise InvalidFilter(str(error)) from error
    require(network.prefixlen < network.max_prefixlen, "cidr of one address")

    def passes(text: str) -> bool:
        if "%" in text or ("." in text) != (network.version == 4) or not text.isascii():
            return False
        try:
            return ip_address(text) in network
        except ValueError:
            return False

    return passes


def copies(operand: str) -> int:
    """Return how long a regular expression can get when its repetitions are written out."""
    bounds = re.findall(r"(\)?)\{([0-9]+)(?:,([0-9]*))?\}", operand)
    number = len(operand) + sum(int(high or low) for group, low, high in bounds if not group)
    for group, low, high in bounds:
        number *= max(int(high or low), 1) if group else 1
    return number


def regex_test(operand: Any, options: Any) -> Callable[[str], bool]:
    """Return the test of a regular expression; refuse one that Python reads differently."""
    require(isinstance(operand, str), "regex operand")
    require(options in (None, "", "i") and not isinstance(options, bool), "options")
    require(len(operand) <= 512, "regex too long")
    require(re.match(r"(?:[^\\]|\\[^1-9])*\\[1-9]", operand, re.DOTALL) is None, "back-reference")
    require(LOOKAROUND.match(operand) is None, "lookaround")
    quantifiers = re.findall(r"\\.|\(\?|([?*+{])", operand, re.DOTALL)
    require(sum(map(bool, quantifiers)) <= 12, "too many quantifiers")
    require(copies(operand) <= 1024, "repeats too much")
    require(UNSHARED.search(operand) is None, "only the server knows this regular expression")
    try:
        compiled = re.compile(
            operand.replace("$", r"\Z"),
            re.DOTALL | (re.IGNORECASE if options == "i" else re.NOFLAG),
        )
    except re.error as error:
        raise InvalidFilter(str(error)) from error
    return lambda s: compiled.search(s) is not None
