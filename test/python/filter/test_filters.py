"""Filters in Python's operators make the documents that one would write by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import pgq
from pgq import Condition, F, ago
from pgq.filters import document

MOMENT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (F.type == "paid", {"type": "paid"}),
        (F.type == None, {"type": None}),  # noqa: E711
        (F.headers.type == "paid", {"headers.type": "paid"}),
        (F.payload.tags == ["a"], {"payload.tags": {"$eq": ["a"]}}),
        (F.payload.size != 1, {"payload.size": {"$ne": 1}}),
        (F.payload.amount > 100, {"payload.amount": {"$gt": 100}}),
        (F.payload.amount >= 100, {"payload.amount": {"$gte": 100}}),
        (F.payload.amount < 100, {"payload.amount": {"$lt": 100}}),
        (F.payload.amount <= 100, {"payload.amount": {"$lte": 100}}),
        (F.msg.priority.between(1, 5), {"msg.priority": {"$between": [1, 5]}}),
        (F.type.in_(("a", "b")), {"type": {"$in": ["a", "b"]}}),
        (F.type.not_in(["a"]), {"type": {"$nin": ["a"]}}),
        (F.type.like("a%"), {"type": {"$like": "a%"}}),
        (F.type.not_like("a%"), {"type": {"$nlike": "a%"}}),
        (F.type.ilike("a%"), {"type": {"$ilike": "a%"}}),
        (F.type.starts_with("a"), {"type": {"$prefix": "a"}}),
        (F.type.ends_with("a"), {"type": {"$suffix": "a"}}),
        (F.type.has_text("a"), {"type": {"$substr": "a"}}),
        (F.type.ieq("a"), {"type": {"$ieq": "a"}}),
        (F.type.wildcard("a*"), {"type": {"$wildcard": "a*"}}),
        (F.type.regex("^a"), {"type": {"$regex": "^a"}}),
        (F.type.regex("^a", ignore_case=True), {"type": {"$regex": "^a", "$options": "i"}}),
        (F.msg.topic.matches_topic("a.#"), {"msg.topic": {"$topic": "a.#"}}),
        (F.type.exists(), {"type": {"$exists": True}}),
        (F.type.is_null(False), {"type": {"$isNull": False}}),
        (F.payload.a.has_type("string"), {"payload.a": {"$type": "string"}}),
        (F.payload.a.has_all([1, 2]), {"payload.a": {"$all": [1, 2]}}),
        (F.payload.a.has_size(2), {"payload.a": {"$size": 2}}),
        (F.payload.a.elem_match({"$gt": 1}), {"payload.a": {"$elemMatch": {"$gt": 1}}}),
        (F.payload.a.contains({"b": 1}), {"payload.a": {"$contains": {"b": 1}}}),
        (F.payload.a.has_remainder(4, 1), {"payload.a": {"$mod": [4, 1]}}),
        (F.payload["a.b"] == 1, {"$path": ["payload", "a.b"], "$eq": 1}),
        (F["x y"] > 1, {"$path": ["headers", "x y"], "$gt": 1}),
        (F.msg.published_at > MOMENT, {"msg.published_at": {"$gt": "2030-01-02T03:04:05+00:00"}}),
        (
            F.msg.published_at > ago(timedelta(hours=1)),
            {"msg.published_at": {"$gt": {"$now": "-3600.0 seconds"}}},
        ),
        (
            (F.a == 1) & (F.b == 2) & (F.c == 3),
            {"$and": [{"a": 1}, {"b": 2}, {"c": 3}]},
        ),
        ((F.a == 1) | ~(F.b == 2), {"$or": [{"a": 1}, {"$not": {"b": 2}}]}),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_an_expression_makes_a_document_that_the_database_accepts(
    filter_client: pgq.PooledClient, condition: Condition, wanted: dict[str, Any]
) -> None:
    assert document(condition) == wanted
    filter_client.matches(condition, {})


def test_a_condition_is_not_a_truth_value() -> None:
    with pytest.raises(TypeError, match="&"):
        bool(F.a == 1)


def test_a_scope_alone_names_no_field() -> None:
    with pytest.raises(TypeError, match=r"F\.payload"):
        F.payload.__eq__(1)


def test_no_filter_and_an_empty_one_are_documents_too() -> None:
    assert document(None) is None
    assert document({}) == {}


def test_a_filter_finds_the_matching_messages(filter_client: pgq.PooledClient) -> None:
    rule = (F.type == "paid") & (F.payload.amount > 100) & ~F.test.exists()
    assert filter_client.matches(rule, {"type": "paid"}, {"amount": 101})
    assert not filter_client.matches(rule, {"type": "paid"}, {"amount": 100})
    assert not filter_client.matches(rule, {"type": "paid", "test": 1}, {"amount": 101})
