"""The errors of Python are those of SQL."""

from __future__ import annotations

import re

import psycopg
import pytest

import pgq
from harness.paths import ROOT
from pgq.errors import BY_SQLSTATE


def test_python_knows_exactly_the_sqlstates_that_sql_raises() -> None:
    raised = set()
    for file in (ROOT / "sql").rglob("*.sql"):
        text = file.read_text(encoding="utf-8")
        caught = set(re.findall(r"when sqlstate '(QU\w{3})'", text))
        raised |= set(re.findall(r"errcode = '(QU\w{3})'", text)) - caught
    assert raised == set(BY_SQLSTATE)


@pytest.mark.parametrize(
    ("error", "statement"),
    [
        (pgq.QueueNotFound, lambda client: client.claim("nowhere")),
        (pgq.QueueExists, lambda client: client.create_queue("there", max_attempts=9)),
        (pgq.LeaseLost, lambda client: client.ack(1)),
        (pgq.InvalidFilter, lambda client: client.claim("there", {"k": {"$near": 1}})),
        (pgq.NoQueue, lambda client: client.publish("nobody.listens", {})),
    ],
)
def test_each_sqlstate_has_a_class_that_carries_the_cure(
    client: pgq.PooledClient, error: type[pgq.PgqError], statement: object
) -> None:
    client.create_queue("there")
    assert callable(statement)
    with pytest.raises(error) as caught:
        statement(client)
    assert caught.value.hint
    assert caught.value.hint in str(caught.value)
    assert isinstance(caught.value.__cause__, psycopg.Error)
    assert caught.value.__cause__.sqlstate == error.sqlstate


def test_a_filter_error_names_its_place(client: pgq.PooledClient) -> None:
    client.create_queue("there")
    with pytest.raises(pgq.InvalidFilter) as caught:
        client.claim("there", {"payload.amount": {"$near": 1}})
    assert "amount" in (caught.value.detail or "")


def test_other_errors_of_the_server_pass_as_they_are(client: pgq.PooledClient) -> None:
    client.create_queue("there")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        client.claim("there", n=0)
