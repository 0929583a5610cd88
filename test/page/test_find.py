"""The search field: its text as a filter."""

from __future__ import annotations

from typing import Any

import pytest

from pgq.dashboard.failures import Refused
from pgq.dashboard.find import Wanted, cause, wanted


@pytest.mark.parametrize(
    ("by", "find", "filter"),
    [
        ("id", "4711 4712", {"msg.id": {"$in": [4711, 4712]}}),
        ("correlation", " c-1 ", {"msg.correlation_id": "c-1"}),
        ("group", "g", {"msg.group_key": "g"}),
        ("recipient", " eu-1 ", {"msg.recipient": "eu-1"}),
        ("sender", "shop", {"msg.sender": "shop"}),
        ("header", "type=paid", {"headers.type": "paid"}),
        ("header", "type", {"headers.type": {"$exists": True}}),
        ("header", "n=5", {"$or": [{"headers.n": "5"}, {"headers.n": 5}]}),
        ("header", 'n="5"', {"headers.n": "5"}),
        ("header", "a.b=x", {"$path": ["headers", "a.b"], "$eq": "x"}),
        ("payload", "a.b=x=y", {"payload.a.b": "x=y"}),
        ("filter", '{"a": 1}', {"a": 1}),
        ("filter", "", None),
        (None, None, None),
    ],
)
def test_what_is_looked_for_becomes_a_filter(
    by: str | None, find: str | None, filter: dict[str, Any] | None
) -> None:
    assert wanted(by, find) == Wanted(filter)


def test_a_text_is_no_filter() -> None:
    assert wanted("text", " Oslo ") == wanted(None, "Oslo") == Wanted(text="Oslo")


@pytest.mark.parametrize(
    ("by", "find"), [("id", "x"), ("filter", "[1]"), ("filter", "{"), ("size", "1")]
)
def test_what_cannot_be_looked_for_is_refused(by: str, find: str) -> None:
    with pytest.raises(Refused):
        wanted(by, find)


def test_a_cause_is_a_pattern_of_the_common_text() -> None:
    assert cause("timeout", None) == {"reason": "timeout", "error": {"$exists": False}}
    assert cause("max_attempts", "user<n> has 100% of a_b\\c <id>")["error"] == {
        "$like": r"user% has 100\% of a\_b\\c %"
    }
