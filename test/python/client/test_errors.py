"""The errors of Python are those of SQL."""

from __future__ import annotations

import pickle
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


@pytest.mark.parametrize(
    ("also", "statement"),
    [
        (
            psycopg.errors.InvalidParameterValue,
            lambda client: client.claim("there", n=0),
        ),
        (
            psycopg.errors.ObjectNotInPrerequisiteState,
            lambda client: client.drop_queue("there"),
        ),
        (psycopg.errors.FeatureNotSupported, lambda client: client.claim("archive")),
        (
            psycopg.errors.UndefinedObject,
            lambda client: client.pause_schedule("nobody"),
        ),
        (psycopg.errors.NoDataFound, lambda client: client.reply(99, {})),
    ],
)
def test_what_pgq_refuses_is_an_error_of_pgq_and_of_psycopg(
    client: pgq.PooledClient, also: type[psycopg.Error], statement: object
) -> None:
    client.create_queue("there")
    client.create_queue("archive", mode="archive")
    client.publish("there", {})
    assert callable(statement)
    with pytest.raises(pgq.Refused) as caught:
        statement(client)
    refused = caught.value
    assert isinstance(refused, also)
    assert type(refused.__cause__) is also
    assert refused.sqlstate == also.sqlstate == refused.diag.sqlstate
    assert refused.diag.message_primary == refused.message
    assert refused.hint
    assert refused.hint in str(refused)
    again = pickle.loads(pickle.dumps(refused))
    assert isinstance(again, pgq.Refused)
    assert isinstance(again, also)
    assert (str(again), again.sqlstate) == (str(refused), refused.sqlstate)


def test_errors_of_triggers_and_constraints_pass_as_they_are(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("there")
    db.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$begin raise exception 'mine' using errcode = '22023'; end$$"
    )
    db.execute(
        "create trigger refuse before insert on pgq.message_0 for each row"
        " when (new.sender = 'nobody') execute function refuse()"
    )
    db.execute(
        "alter table pgq.message_0 add constraint small check (pg_column_size(payload) < 50)"
    )
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="mine") as raised:
        client.publish("there", 1, sender="nobody")
    assert not isinstance(raised.value, pgq.PgqError)
    with pytest.raises(psycopg.errors.CheckViolation) as violated:
        client.publish("there", "x" * 100)
    assert not isinstance(violated.value, pgq.PgqError)
