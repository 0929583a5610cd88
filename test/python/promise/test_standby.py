"""Functions and views that only read work on a hot standby, with the same results."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import pgq
from harness.server import embedded_server
from pgq import Message, embedded

# Every view and function that only reads. {id} is a message with a history, {lease} a lease.
# Columns that depend on the time are left out.
READS = {
    "queue_stats": "select queue, mode, paused, ready, scheduled, leased, waiting, dead, exact,"
    " next_due_at, oldest_age is null, published_per_second > 0 from pgq.queue_stats",
    # Without values that depend on the time or the server, staged messages, and sequences, which
    # are ahead on a standby.
    "metrics": "select name, kind, labels, value from pgq.metrics() where name !~ 'second|bytes"
    "|snapshot|dead_rows|staged|recovery|published_messages_total|^pgq_claims'",
    "findings": "select queue, finding from pgq.findings() where queue is not null",
    "queue_traffic": "select * from pgq.queue_traffic order by queue, minute",
    "message_state": "select * from pgq.message_state order by id, queue",
    "subscription": "select * from pgq.subscription order by subscriber, pattern",
    "filter_stats": "select * from pgq.filter_stats order by queue, filter",
    "history": "select * from pgq.history({id})",
    "explain_filter": 'select * from pgq.explain_filter(\'orders\', \'{{"type": "new", "n": 1}}\')',
    "peek": "select * from pgq.peek('orders', '{{\"type\": \"new\"}}', 700)",
    "messages": "select * from pgq.messages('orders', 'ready', n => 700)",
    "check": "select * from pgq.check()",
    "replies": "select * from pgq.replies('question')",
    "version": "select pgq.version()",
    "channel": "select pgq.channel('orders')",
    "leased": "select * from pgq.leased({lease})",
    "leases": "select lease_id, queue, key, size, until from pgq.leases order by lease_id",
    "lease_parts": "select * from pgq.lease_parts({lease}, 2)",
    "leased_message": "select * from pgq.leased_message order by id",
    "named_lease": "select pgq.named_lease('orders', 'held')",
    "stream_batch": "select * from pgq.stream_batch('orders', 'reader', 1)",
    "backlog": "select pgq.backlog('orders')",
    "peek_slice": "select * from pgq.peek_slice('orders', null, 0, 2) order by id",
    "log_range": "select low, high from pgq.log_range()",
    "read_log": "select * from pgq.read_log(1, 100) order by id",
    "writer_epoch": "select pgq.writer_epoch('writer')",
    "rights": "select * from pgq.rights",
    "limits": "select * from pgq.limits",
    "schedules": "select * from pgq.schedules",
    "streams": "select * from pgq.streams",
    "dead_letter": "select message_id, reason, error, attempts from pgq.dead_letter",
    "dead_letter_ids": "select id from pgq.dead_letter_ids('orders', newest => true) id",
    "result": "select * from pgq.result({id})",
    "log_parts": "select * from pgq.log_parts(1000000)",
    "relays": "select queue, relay, destination, circuit, error, owner, batch from pgq.relays",
    "now": "select pgq.now() is null",
    "matches": "select pgq.matches('{{\"unknown\": 1}}', '{{\"unknown\": 1}}')",
    "matches_topic": "select pgq.matches_topic('orders.#', 'orders.eu')",
    "compile_filter": 'select * from pgq.compile_filter(\'{{"type": "new"}}\')',
    "addressed_to": "select pgq.addressed_to('me')",
    "entity_filter": "select pgq.entity_filter('{{a}}')",
    "header_equals": "select pgq.header_equals('a', 'b')",
    "header_in": "select pgq.header_in('a', '{{b}}')",
    "header_not_equals": "select pgq.header_not_equals('a', 'b')",
    "header_like": "select pgq.header_like('a', 'b%')",
    "all_of": "select pgq.all_of('{{\"a\": 1}}', '{{\"b\": 1}}')",
    "any_of": "select pgq.any_of('{{\"a\": 1}}', '{{\"b\": 1}}')",
}

# These may return null or nothing.
EMPTY = {"check", "limits", "schedules", "streams"}


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[embedded.Server, embedded.Server]]:
    """A server with pgq that has seen some work, and a standby that has followed it."""
    # What is committed has been written, so that the standby can be waited for.
    with embedded_server(synchronous_commit=True) as primary:
        with psycopg.connect(primary.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            work(conn)
        with primary.standby() as standby:
            catch_up(primary, standby)
            yield primary, standby


def work(db: psycopg.Connection) -> None:
    """Put rows into every table."""
    db.execute("select pgq.create_queue('orders', lane_keys => '{type}', max_attempts => 1)")
    db.execute("select pgq.subscribe('audit', 'orders.#', '{\"type\": \"new\"}')")
    db.execute(
        "select pgq.publish('orders', to_jsonb(i), '{\"type\": \"new\"}',"
        " correlation_id => 'question') from generate_series(1, 600) i"
    )
    db.execute("select pgq.publish('orders', '0', '{\"type\": \"old\"}', dedup_key => 'once')")
    db.execute("select pgq.publish('orders', '0', delay => '1 day')")
    db.execute("select pgq.publish('orders', '0', group_key => 'g') from generate_series(1, 3)")
    db.execute(
        "select pgq.nack(lease_id, error => 'no') from pgq.claim('orders', '{\"type\": \"new\"}')"
    )
    db.execute("select pgq.ack(lease_id) from pgq.claim('orders', '{\"type\": \"new\"}')")
    db.execute('select from pgq.claim(\'orders\', \'{"type": "new", "n": null}\', 10)')
    db.execute("select from pgq.claim('audit', n => 10, lease => '1 day')")
    db.execute("select pgq.seen('handler', 1)")
    db.execute("select pgq.hold('orders', 'held', n => 5)")
    db.execute("select pgq.stream_begin('orders', 'reader', 'process')")
    db.execute("select pgq.stream_claim('orders', 'reader', 'process', 1, n => 5)")
    db.execute("select pgq.relay_report('orders', 'reader', 'redis://host', 'open', 'refused')")
    db.execute("select pgq.publish_staged('{}', writer => 'writer', epoch => 7)")
    db.execute("select pgq.grant_queue('orders', 'postgres', 'consume')")
    db.execute("call pgq.maintain()")


def value(server: embedded.Server, query: str) -> Any:
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def catch_up(primary: embedded.Server, standby: embedded.Server) -> None:
    """Wait until the standby has replayed what the primary has written."""
    written = value(primary, "select pg_current_wal_lsn()")
    deadline = time.monotonic() + 60
    while not value(standby, f"select pg_last_wal_replay_lsn() >= '{written}'"):
        assert time.monotonic() < deadline, standby.log()
        time.sleep(0.05)


def test_every_view_and_function_that_reads_is_tried_here(
    pair: tuple[embedded.Server, embedded.Server],
) -> None:
    names = value(
        pair[0],
        "select array_agg(distinct name) from ("
        " select proname::text as name from pg_proc where pronamespace = 'pgq'::regnamespace"
        " and (provolatile <> 'v' or proname in ('leased', 'lease_parts', 'now'))"
        " union all select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relkind = 'v') x where name !~ '^_'",
    )
    assert set(names) == set(READS)


@pytest.mark.parametrize("name", READS)
def test_a_standby_returns_the_same_as_the_primary(
    pair: tuple[embedded.Server, embedded.Server], name: str
) -> None:
    primary, standby = pair
    query = READS[name].format(
        id=value(primary, "select message_id from pgq.dead_letter limit 1"),
        lease=value(primary, "select lease_id from pgq.lease limit 1"),
    )
    with psycopg.connect(standby.dsn(), autocommit=True) as conn:
        assert conn.execute("select pg_is_in_recovery()").fetchone() == (True,)
        there = conn.execute(query.encode()).fetchall()
    with psycopg.connect(primary.dsn(), autocommit=True) as conn:
        here = conn.execute(query.encode()).fetchall()
    assert there == here
    assert name in EMPTY or there


def test_every_table_can_be_read_on_a_standby(
    pair: tuple[embedded.Server, embedded.Server],
) -> None:
    primary, standby = pair
    tables = value(
        primary,
        "select array_agg(oid::regclass::text) from pg_class"
        " where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'p')"
        " and relpersistence = 'p'",  # what is staged is there for the writer alone
    )
    for table in tables:
        query = f"select count(*) from {table}"
        assert value(standby, query) == value(primary, query)


def test_reading_works_under_every_isolation_level_that_a_standby_has(
    pair: tuple[embedded.Server, embedded.Server],
) -> None:
    with psycopg.connect(pair[1].dsn()) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.read_only = True
        assert conn.execute("select sum(ready) > 0 from pgq.queue_stats").fetchone() == (True,)
        assert len(conn.execute("select from pgq.peek('orders', n => 5)").fetchall()) == 5


@pytest.mark.parametrize(
    "statement",
    [
        "select pgq.publish('orders', '1')",
        "select from pgq.claim('orders')",
        "select from pgq.claim('orders', '{\"type\": \"new\"}')",
        "select pgq.ack(LEASE)",
        "select pgq.nack(LEASE)",
        "select pgq.bury(LEASE)",
        "select pgq.extend(LEASE)",
        "select pgq.release(LEASE)",
        "select pgq.replay('orders')",
        "select pgq.create_queue('more')",
        "call pgq.maintain()",
    ],
)
def test_a_standby_refuses_to_write_and_says_why(
    pair: tuple[embedded.Server, embedded.Server], statement: str
) -> None:
    lease = value(pair[0], "select lease_id from pgq.lease limit 1")
    with (
        psycopg.connect(pair[1].dsn(), autocommit=True) as conn,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        conn.execute(statement.replace("LEASE", str(lease)).encode())


def test_a_standby_follows_and_takes_over(
    pair: tuple[embedded.Server, embedded.Server],
) -> None:
    primary, _ = pair
    with primary.standby("second") as standby:
        with psycopg.connect(primary.dsn(), autocommit=True) as conn:
            conn.execute("select pgq.publish('orders', '\"last words\"', priority => 9)")
        catch_up(primary, standby)
        standby.promote()
        with pgq.connect(standby.dsn()) as client, client.claim("orders") as batch:
            messages: list[Message] = list(batch)
        assert [message.payload for message in messages] == ["last words"]
        assert value(standby, "select count(*) from pgq.check()") == 0
