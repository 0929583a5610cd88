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


def plain_beginning(operator: str, text: str) -> str:
    """Return the text that a pattern begins with; if it ignores case, one letter or digit."""
    if operator in ("$like", "$wildcard"):
        return re.split(r"[*%_\\]", text, maxsplit=1)[0]
    if operator in ("$ieq", "$ilike") and re.match(r"[0-9A-Za-z]", text):
        return text[0].lower()
    return ""


def pattern_length(operator: str, text: str) -> int:
    if operator in ("$regex", "$iregex"):
        return copies(text)
    return 0 if operator == "cidr" else len(text)


def search(operator: str, text: str) -> int:
    """Return the nodes that a pattern counts for because it searches a text."""
    steps, ones = 0, 0
    if operator in ("$suffix", "$substr"):
        steps = 1
    elif operator in ("$regex", "$iregex"):
        if is_anchored(text):
            return 0
        steps, ones = 1 + sum(c in "?*+{|" for c in text), wide(text)
    elif operator == "$topic":
        steps = len(re.findall("#[^#]", text))
    elif operator in ("$like", "$ilike", "$wildcard"):
        many, one = ("*", "") if operator == "$wildcard" else ("%", "_")
        kinds = [kind for kind, _ in tokens(text, many, one, None)]
        while kinds and kinds[-1] == "many":
            kinds.pop()
        steps, ones = kinds.count("many"), kinds.count("one")
    return 3 + 3 * steps + 16 * ones + pattern_length(operator, text) // 2 if steps else 0


def search_nodes(regexes: list[tuple[str, str]]) -> int:
    """Return the nodes of searching: the largest sum of patterns whose plain beginnings agree."""
    found = [(plain_beginning(o, text), search(o, text)) for o, text in regexes]
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
    return 7 + most if most else 0


def largest_group(headed: list[tuple[str, int]]) -> int:
    """Return the length of the longest of the regular expressions that patterns are joined to."""
    headed = sorted(headed, key=lambda each: each[0].encode())
    groups = [[headed[0][1]]]
    family = headed[0][0]
    for head, length in headed[1:]:
        if not head.startswith(family):
            family = head
            if len(groups[-1]) >= max((len(headed) + 15) // 16, 32):
                groups.append([])
        groups[-1].append(length)
    return max(map(sum, groups))


def regex_nodes(regexes: list[tuple[str, str]]) -> int:
    """Return the nodes of patterns that are evaluated by regular expressions."""
    if not regexes:
        return 0
    lengths = [(plain_beginning(o, text), pattern_length(o, text)) for o, text in regexes]
    headed = [(head, length) for head, length in lengths if head]
    size = sum(length for head, length in lengths if not head)
    if len(headed) > 64:
        size = max(size, largest_group(headed))
    else:
        size += sum(length for _, length in headed)
    size = min(size, 10_000)
    longest = max(length for _, length in lengths)
    nodes = 6 + size // 25 + size * size // 80_000 + longest * (108 + size) // 280
    return nodes + search_nodes(regexes)


def suffix_of(operator: str, text: str) -> str | None:
    """Return the text that a pattern asks a text to end with; None if it asks for more."""
    if operator == "$suffix":
        return text
    shape = {"$wildcard": r"\*+([^*\\]+)", "$like": r"%+([^%_\\]+)"}.get(operator)
    found = re.fullmatch(shape, text) if shape else None
    return found[1] if found else None


def text_nodes(tests: list[tuple[str, str]]) -> tuple[int, bool]:
    """Return the nodes of the patterns of a list, and whether texts are read backwards for it."""
    points = 0
    kinds: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
    for operator, text in tests:
        points += 11 if operator != "cidr" else 11_011 if ":" in text else 3761
        if is_regex(operator, text):
            kinds[is_ignoring(operator)].append((operator, text))
    forwards, ignoring = regex_nodes(kinds[False]), regex_nodes(kinds[True])
    suffixes = [s for test in kinds[False] if (s := suffix_of(*test)) is not None]
    others = [test for test in kinds[False] if suffix_of(*test) is None]
    if not suffixes:
        return points // 500 + forwards + ignoring, False
    backwards = 50 + max(map(len, suffixes)) // 40 + regex_nodes(others)
    return points // 500 + min(forwards, backwards) + ignoring, backwards < forwards


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


CLASS = r"\\[dwsDWS]|\.|\[\^?\]?(?:\[:[a-z]+:\]|[^\]\\]|\\.)*\]"


def is_anchored(pattern: str) -> bool:
    """Whether a regular expression begins at the start of a text, and never searches."""
    return re.fullmatch(r"\^[^|*+]*", pattern) is not None and not re.search(
        r"\{[0-9]+,\}", pattern
    )


def wide(pattern: str) -> int:
    """Return how many characters of a regular expression may be one of several."""
    if is_anchored(pattern):
        return 0
    found = re.findall(rf"(\\[^dwsDWS])|({CLASS})([*+]|\{{([0-9]+)(?:,([0-9]*))?\}})?", pattern)
    classes = {part[1] for part in found if part[1]}
    plain = re.sub(rf"(?:{CLASS})|\{{[0-9,]*\}}|\(\?:|[()|*+?^$]", "", pattern)
    if not classes or (len(classes) == 1 and not re.search(classes.pop(), plain, re.DOTALL)):
        return 0
    number = sum(
        0 if part[2] in ("*", "+") else int(part[4] or part[3] or 1) for part in found if part[1]
    )
    for low, high in re.findall(r"\)\{([0-9]+)(?:,([0-9]*))?\}", pattern):
        number *= max(int(high or low), 1)
    head = re.match(r"(?:[0-9A-Za-z _:,/=@#-](?![?*+{]))*", pattern)
    if head is not None and head[0][:1] not in head[0][1:] and "|" not in pattern:
        number = -(-number // (1 + len(head[0])))
    return min(number, 1000)


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
