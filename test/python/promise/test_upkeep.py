"""Maintenance that needs its own transactions: removal of lanes, rotation, COPY."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

Connect = Callable[..., psycopg.Connection]


def value(db: psycopg.Connection, query: str) -> Any:
    row = db.execute(query).fetchone()
    assert row is not None
    return row[0]


def listen(db: psycopg.Connection) -> list[str]:
    """The notices that the server sends from now on, with their codes."""
    notices: list[str] = []
    db.add_notice_handler(lambda diag: notices.append(f"{diag.sqlstate} {diag.message_primary}"))
    return notices


def maintain(db: psycopg.Connection, times: int = 1) -> None:
    for _ in range(times):
        db.execute("call pgq.maintain()")


def test_an_unused_lane_is_removed(db: psycopg.Connection) -> None:
    db.execute("select pgq.create_queue('orders', '{type}')")
    db.execute("""select pgq.publish('orders', '1', '{"type": "a"}')""")
    db.execute("""select pgq.publish('orders', '2', '{"type": "b"}')""")
    lease = value(db, """select lease_id from pgq.claim('orders', '{"type": "a"}')""")
    db.execute("select pgq.ack(%s)", [lease])
    maintain(db)
    assert value(db, "select count(*) from pgq.lane") == 2
    maintain(db)
    assert value(db, "select array_agg(document -> 'headers') from pgq.lane") == [{"type": "b"}]
    maintain(db, 3)
    assert value(db, "select count(*) from pgq.lane") == 1


def test_a_lane_that_is_used_again_stays(db: psycopg.Connection) -> None:
    db.execute("select pgq.create_queue('orders', '{type}')")
    for _ in range(3):
        db.execute("""select pgq.publish('orders', '1', '{"type": "a"}')""")
        lease = value(db, "select lease_id from pgq.claim('orders')")
        db.execute("select pgq.ack(%s)", [lease])
        maintain(db)
    db.execute("""select pgq.publish('orders', '"here"', '{"type": "a"}')""")
    maintain(db, 5)
    assert value(db, """select payload from pgq.claim('orders', '{"type": "a"}')""") == "here"


def test_a_lane_stays_while_a_publisher_may_use_it(connect: Connect) -> None:
    db, publisher = connect(), connect(autocommit=False)
    db.execute("select pgq.create_queue('orders', '{type}')")
    db.execute("""select pgq.publish('orders', '"fast"', '{"type": "a"}')""")
    db.execute("select pgq.ack(lease_id) from pgq.claim('orders')")
    publisher.execute("""select pgq.publish('orders', '"slow"', '{"type": "a"}')""")
    maintain(db, 5)
    publisher.commit()
    assert value(db, """select payload from pgq.claim('orders', '{"type": "a"}')""") == "slow"


def test_a_full_dictionary_of_lanes_recovers(db: psycopg.Connection) -> None:
    db.execute("select pgq.create_queue('orders', '{type,#customer}')")
    notices = listen(db)
    db.execute(
        "insert into pgq.message (topic, payload, headers)"
        " select 'orders', '1', jsonb_build_object('type', i) from generate_series(1, 1200) i"
    )
    assert notices == ["01000 queue 1 has more than 1000 lanes"]
    assert value(db, "select lanes_full from pgq.queue") is True
    lease = value(db, "select lease_id from pgq.claim('orders', n => 2000)")
    db.execute("select pgq.ack(%s)", [lease])
    maintain(db, 4)
    assert value(db, "select count(*) from pgq.lane") == 0
    assert value(db, "select lanes_full from pgq.queue") is False


def test_values_beyond_the_dictionary_are_hashed_without_a_word(db: psycopg.Connection) -> None:
    db.execute("select pgq.create_queue('orders', '{msg.recipient}')")
    notices = listen(db)
    db.execute(
        "insert into pgq.message (topic, payload, recipient)"
        " select 'orders', to_jsonb(i), 'r' || i % 2000 from generate_series(1, 4000) i"
    )
    assert notices == []
    assert value(db, "select lane_keys from pgq.queue") == ["#msg.recipient"]
    maintain(db, 4)
    assert value(db, "select count(*) from pgq.lane") == 1
    claim = "select array_agg(payload) from pgq.claim('orders', '{\"msg.recipient\": \"r%s\"}', 9)"
    assert value(db, claim % 7) == [7, 2007]
    assert value(db, claim % 1999) == [1999, 3999]
    assert value(db, "select sum(tested) from pgq.filter_stats") == 4
    assert value(db, "select count(*) from pgq.check()") == 0


def test_rows_from_before_the_lanes_are_sorted_into_them(db: psycopg.Connection) -> None:
    db.execute("select pgq.create_queue('orders')")
    db.execute(
        "insert into pgq.message (topic, payload, headers)"
        " select 'orders', to_jsonb(i), jsonb_build_object('type', i % 3)"
        " from generate_series(1, 3000) i"
    )
    db.execute("select pgq.alter_queue('orders', lane_keys => '{type}')")
    assert value(db, "select unlaned_rows from pgq.queue") is True
    maintain(db, 4)
    assert value(db, "select unlaned_rows from pgq.queue") is False
    assert value(db, "select count(*) from pgq.ready where lane_id is null") == 0
    assert value(db, """select count(*) from pgq.claim('orders', '{"type": 1}', 9000)""") == 1000
    assert value(db, "select sum(tested) from pgq.filter_stats") == 0


def test_maintain_rotates_the_log_and_keeps_unfinished_messages(connect: Connect) -> None:
    db = connect()
    db.execute("select pgq.create_queue('orders', retention => '0')")
    db.execute("select pgq.publish('orders', '\"stuck\"', priority => -1)")
    most = 0
    for _ in range(12):
        db.execute(
            "select count(*) from pgq.publish_batch('orders', array_fill('1'::jsonb, array[50]))"
        )
        # With a parameter, as drivers do it: by the extended protocol.
        lease = db.execute("select lease_id from pgq.claim('orders', n => %s)", [50]).fetchone()
        assert lease is not None
        db.execute("select pgq.ack(%s)", [lease[0]])
        db.execute("update pgq.era set started_at = started_at - interval '1 s'")
        db.execute("call pgq.maintain()")
        most = max(most, value(db, "select count(*) from pgq.message"))
    assert value(db, "select last_value from pgq.era_number") >= 5
    assert most <= 8 * 50 + 1  # of 601: a snapshot elsewhere may hold up a step
    assert value(db, "select payload from pgq.claim('orders')") == "stuck"


def test_eras_rotate_while_sessions_always_read_the_log(connect: Connect) -> None:
    db = connect()
    db.execute("select pgq.create_queue('orders', retention => '1 s')")
    stop = threading.Event()

    def read() -> None:
        with connect() as conn:
            while not stop.is_set():
                conn.execute("select count(*), pg_sleep(0.3) from pgq.message")

    with ThreadPoolExecutor(12) as pool:
        readers = [pool.submit(read) for _ in range(12)]
        try:
            deadline = time.monotonic() + 180
            while value(db, "select last_value from pgq.era_number") < 4:
                assert time.monotonic() < deadline, "the log is never emptied"
                # As if it had been tried in vain for long.
                db.execute("update pgq.era set started_at = now() - interval '1 hour'")
                db.execute("select pgq.publish('orders', '1')")
                db.execute("select pgq.ack(lease_id) from pgq.claim('orders')")
                db.execute("call pgq.maintain()")
                time.sleep(0.2)
        finally:
            stop.set()
        for reader in readers:
            reader.result()


def test_a_reader_of_a_due_slot_makes_nobody_copy_twice(connect: Connect) -> None:
    db, reader = connect(), connect(autocommit=False)
    db.execute("select pgq.create_queue('orders', retention => '1 s')")
    db.execute("call pgq.maintain()")
    db.execute(
        "insert into pgq.message (topic, payload)"
        " select 'orders', to_jsonb(repeat(md5(i::text), 20)) from generate_series(1, 2000) i"
    )
    due = "update pgq.era set started_at = now() - interval '1 hour'"
    db.execute(due)
    db.execute("call pgq.maintain(until_done => false)")  # begins the next era
    reader.execute("select from pgq.message limit 1")
    reader.execute("select pg_sleep(1.1)")  # its transaction counts as old
    db.execute(due)
    size = "select sum(pg_relation_size('pgq.message_' || i)) from generate_series(0, 2) i"
    before = value(db, size)
    db.execute("call pgq.maintain()")
    copied = value(db, size)
    assert copied > before
    for _ in range(5):
        db.execute("call pgq.maintain()")
    assert value(db, size) == copied
    assert value(db, "select count(*) from pgq.era where emptied_at is not null") == 0
    reader.rollback()
    db.execute("call pgq.maintain()")
    assert value(db, "select count(*) from pgq.era where emptied_at is not null") == 1
    assert value(db, "select count(*) from pgq.claim('orders', n => 5000)") == 2000


def test_a_claim_inside_a_transaction_does_not_lock_the_log(connect: Connect) -> None:
    db, other = connect(autocommit=False), connect()
    other.execute("select pgq.create_queue('orders', retention => '0')")
    for _ in range(5):
        other.execute("select pgq.publish('orders', '1')")
        db.execute("set constraints all immediate")
        db.execute("select pgq.claim('orders')")
        db.execute("select pgq.claim('orders')")
        assert (
            value(
                other,
                "select count(*) from pg_locks where mode = 'AccessExclusiveLock'"
                " and relation::regclass::text ~ '^pgq.message'",
            )
            == 0
        )
        db.commit()
        time.sleep(0.11)


def test_a_lease_that_cannot_be_buried_stays_and_says_so(db: psycopg.Connection) -> None:
    notices = listen(db)
    db.execute("select pgq.create_queue('orders', max_attempts => 1, lease => '100 ms')")
    db.execute("alter table pgq.letter add constraint obstacle check (false)")
    db.execute("select pgq.publish('orders', '\"kept\"')")
    assert value(db, "select count(*) from pgq.claim('orders')") == 1
    time.sleep(0.2)
    assert value(db, "select count(*) from pgq.claim('orders')") == 0
    assert notices
    assert all(re.match(r"23514 lease \d+ could not be taken back", n) for n in notices)
    assert value(db, "select state from pgq.message_state") == "leased"
    db.execute("alter table pgq.letter drop constraint obstacle")
    time.sleep(0.11)
    assert value(db, "select count(*) from pgq.claim('orders')") == 0
    assert value(db, "select state from pgq.message_state") == "dead"


def test_copy_is_a_publish(db: psycopg.Connection) -> None:
    db.execute("select pgq.create_queue('orders', '{type}', set_size => 10)")
    with (
        db.cursor() as cursor,
        cursor.copy("copy pgq.message (topic, headers, payload, priority) from stdin") as copy,
    ):
        for i in range(95):
            copy.write_row(("orders", f'{{"type": {i % 2}}}', str(i), i % 3))
    rows = db.execute("""select payload, priority from pgq.claim('orders', '{"type": 1}', 99)""")
    taken = rows.fetchall()
    assert sorted(row[0] for row in taken) == list(range(1, 95, 2))
    assert [row[1] for row in taken] == sorted((row[1] for row in taken), reverse=True)
    assert value(db, "select count(*) from pgq.claim('orders', n => 99)") == 48


@pytest.mark.parametrize(
    ("topic", "headers", "code"),
    [("nobody", "{}", "QU005"), ("orders", '{"a": []}', "22023"), ("a b", "{}", "22023")],
)
def test_a_copy_with_a_wrong_message_is_refused_whole(
    db: psycopg.Connection, topic: str, headers: str, code: str
) -> None:
    db.execute("select pgq.create_queue('orders')")
    rows = f"orders\t{{}}\t1\n{topic}\t{headers}\t2\n"

    def copy_rows() -> None:
        statement = "copy pgq.message (topic, headers, payload) from stdin"
        with db.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(rows)

    with pytest.raises(psycopg.Error) as caught:
        copy_rows()
    assert caught.value.sqlstate == code
    assert caught.value.diag.message_hint
    assert value(db, "select count(*) from pgq.message") == 0
    assert value(db, "select count(*) from pgq.claim('orders')") == 0
