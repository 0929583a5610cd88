"""The scan cursor: a filtered consumer tests each message once, and misses none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from harness.damage import damage

Connect = Callable[..., psycopg.Connection]
RARE = {"type": "rare"}


@pytest.fixture
def queue(db: psycopg.Connection) -> str:
    """A queue with a backlog that does not match the filter."""
    db.execute("select pgq.create_queue('orders', lease => '1 h')")
    backlog(db, 2000)
    return "orders"


def backlog(db: psycopg.Connection, size: int) -> None:
    db.execute(
        "select count(*) from pgq.publish_batch('orders', array_fill('0'::jsonb, array[%s]))",
        [size],
    )


def publish(db: psycopg.Connection, payload: Any, **headers: Any) -> None:
    db.execute("select pgq.publish('orders', %s, %s)", [json.dumps(payload), json.dumps(headers)])


def claim(db: psycopg.Connection, document: dict[str, Any] | None = None, n: int = 10) -> list[Any]:
    """Return the payloads of a claim, and its token at the end."""
    rows = db.execute(
        "select payload, lease_id from pgq.claim('orders', %s, %s)",
        [None if document is None else json.dumps(document), n],
    ).fetchall()
    return [row[0] for row in rows] + [row[1] for row in rows[:1]]


def take(db: psycopg.Connection, document: dict[str, Any], n: int = 10) -> list[Any]:
    return claim(db, document, n)[:-1]


def count_tests(db: psycopg.Connection) -> int:
    """How many messages claims have tested so far."""
    row = db.execute("select coalesce(sum(tested), 0)::int from pgq.filter_stats").fetchone()
    assert row is not None
    return int(row[0])


def listen(db: psycopg.Connection) -> list[str]:
    """The notices that the server sends from now on."""
    notices: list[str] = []

    def note(diag: psycopg.errors.Diagnostic) -> None:
        texts = (diag.message_primary, diag.message_detail, diag.message_hint)
        notices.append(f"{diag.severity_nonlocalized}: {' '.join(filter(None, texts))}")

    db.add_notice_handler(note)
    return notices


def look_in_vain(db: psycopg.Connection, document: dict[str, Any] = RARE) -> None:
    """Claim until the filter has tested all messages and its cursor is stored."""
    for _ in range(2):  # the first claim of all keeps the compiled filter, and so has written
        assert take(db, document) == []
    before = count_tests(db)
    assert take(db, document) == []
    assert count_tests(db) == before


def test_a_backlog_without_a_match_is_tested_and_then_left_alone(
    db: psycopg.Connection, queue: str
) -> None:
    assert take(db, RARE) == []
    assert count_tests(db) == 2000
    assert take(db, RARE) == []
    assert count_tests(db) <= 4000
    for _ in range(20):
        assert take(db, RARE) == []
    assert count_tests(db) <= 4000


def test_only_new_messages_are_tested(db: psycopg.Connection, queue: str) -> None:
    look_in_vain(db)
    before = count_tests(db)
    backlog(db, 7)
    assert take(db, RARE) == []
    assert count_tests(db) - before <= 7


def test_a_new_match_is_found(db: psycopg.Connection, queue: str) -> None:
    look_in_vain(db)
    publish(db, "here", type="rare")
    assert take(db, RARE) == ["here"]
    assert take(db, RARE) == []


def test_another_session_profits_and_misses_nothing(connect: Connect, queue: str) -> None:
    one, other = connect(), connect()
    look_in_vain(one)
    before = count_tests(one)
    assert take(other, RARE) == []
    assert count_tests(other) == before
    publish(one, "here", type="rare")
    assert take(other, RARE) == ["here"]


def test_a_match_of_a_publisher_that_commits_later_is_found(connect: Connect, queue: str) -> None:
    consumer, publisher = connect(), connect(autocommit=False)
    publish(publisher, "slow", type="rare")
    backlog(consumer, 1000)
    look_in_vain(consumer)
    publisher.commit()
    assert take(consumer, RARE) == ["slow"]


def test_a_match_of_higher_priority_is_found(db: psycopg.Connection, queue: str) -> None:
    look_in_vain(db)
    db.execute("""select pgq.publish('orders', '"high"', '{"type": "rare"}', priority => 9)""")
    assert take(db, RARE) == ["high"]


def test_a_match_that_is_given_back_is_found(db: psycopg.Connection, queue: str) -> None:
    publish(db, "back", type="rare")
    *_, lease = claim(db, RARE)
    look_in_vain(db)
    db.execute("select pgq.nack(%s, delay => '0')", [lease])
    assert take(db, RARE) == ["back"]


def test_a_match_whose_lease_expires_is_found(db: psycopg.Connection, queue: str) -> None:
    publish(db, "back", type="rare")
    *_, lease = claim(db, RARE)
    look_in_vain(db)
    db.execute(
        "update pgq.lease set until = pgq.now(), lease_id = pgq._lease_second(pgq.now())"
        " where lease_id = %s",
        [lease],
    )
    assert take(db, RARE) == ["back"]


def test_a_match_that_becomes_due_is_found(db: psycopg.Connection, queue: str) -> None:
    db.execute("""select pgq.publish('orders', '"due"', '{"type": "rare"}', delay => '1 h')""")
    look_in_vain(db)
    db.execute("update pgq.scheduled set due_at = pgq.now()")
    assert take(db, RARE) == ["due"]


def test_a_match_that_is_replayed_is_found(db: psycopg.Connection, queue: str) -> None:
    publish(db, "again", type="rare")
    *_, lease = claim(db, RARE)
    db.execute("select pgq.bury(%s)", [lease])
    look_in_vain(db)
    db.execute("select pgq.replay('orders')")
    assert take(db, RARE) == ["again"]


def test_a_match_in_the_rest_of_a_set_is_found(db: psycopg.Connection, queue: str) -> None:
    look_in_vain(db, {"msg": {"attempt": 2}})
    *_, lease = claim(db, None, 100)
    db.execute("select pgq.nack(%s, delay => '0')", [lease])
    assert len(take(db, {"msg": {"attempt": 2}}, 1000)) == 100


def test_matches_far_apart_are_found_one_by_one(db: psycopg.Connection, queue: str) -> None:
    for name in ("first", "second", "third"):
        publish(db, name, type="rare")
        backlog(db, 800)
    assert take(db, RARE, 1) == ["first"]
    assert take(db, RARE, 1) == ["second"]
    publish(db, "fourth", type="rare")
    assert take(db, RARE, 1) == ["third"]
    assert take(db, RARE, 1) == ["fourth"]
    assert take(db, RARE, 1) == []


def test_a_match_that_another_is_taking_is_not_forgotten(connect: Connect, queue: str) -> None:
    one, other = connect(), connect(autocommit=False)
    publish(one, "mine", type="rare")
    assert take(other, RARE) == ["mine"]
    for _ in range(3):
        assert take(one, RARE) == []
    other.rollback()
    assert take(one, RARE) == ["mine"]


def test_a_transaction_that_publishes_finds_its_own_messages(connect: Connect, queue: str) -> None:
    conn, other = connect(autocommit=False), connect()
    take(other, RARE)
    for name in ("one", "two"):
        publish(conn, "other")
        backlog(other, 600)  # by a younger transaction, which ends before
        assert take(conn, RARE) == []
        publish(conn, name, type="rare")
        assert take(conn, RARE) == [name]
    conn.commit()
    publish(conn, "three", type="rare")
    assert take(conn, RARE) == ["three"]
    conn.commit()


def test_a_message_that_comes_to_match_with_time_is_found(
    db: psycopg.Connection, queue: str
) -> None:
    old = {"msg": {"published_at": {"$lt": {"$now": "-10 minutes"}}}}
    db.execute("select pgq.drop_queue('orders', force => true)")
    db.execute("select pgq.create_queue('orders', lease => '1 h')")
    backlog(db, 600)
    for _ in range(3):
        assert take(db, old) == []
    damage(db, "update pgq.message set published_at = published_at - interval '11 minutes'")
    assert len(take(db, old, 1000)) == 600


def test_lanes_that_come_later_change_no_answer(db: psycopg.Connection, queue: str) -> None:
    look_in_vain(db)
    db.execute("select pgq.alter_queue('orders', lane_keys => '{type}')")
    publish(db, "laned", type="rare")
    assert take(db, RARE) == ["laned"]
    db.execute("select pgq.alter_queue('orders', lane_keys => '{}')")
    publish(db, "plain", type="rare")
    assert take(db, RARE) == ["plain"]
    db.execute("call pgq.maintain()")
    assert take(db, RARE) == []


def test_many_tests_without_a_match_raise_one_warning(db: psycopg.Connection, queue: str) -> None:
    notices = listen(db)
    assert take(db, RARE) == []
    assert notices == []
    db.execute("set pgq.warn_after_tests = 1000")
    assert take(db, {"type": "rarer"}) == []
    [notice] = notices
    assert notice.startswith('WARNING: a claim on queue "orders" tested 2000 messages')
    assert "rarer" in notice
    assert "pgq.explain_filter('orders'" in notice
    assert take(db, {"type": "rarest"}) == []
    assert len(notices) <= 2  # one a minute, and the minute may have just ended


@pytest.mark.parametrize("setting", ["0", "never", ""])
def test_the_warning_can_be_switched_off(db: psycopg.Connection, queue: str, setting: str) -> None:
    notices = listen(db)
    db.execute("select set_config('pgq.warn_after_tests', %s, false)", [setting])
    assert take(db, RARE) == []
    assert notices == []
