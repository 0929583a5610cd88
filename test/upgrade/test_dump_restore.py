"""A dump contains everything: restored queues continue to work."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.types.json import Jsonb

from harness.install import check_invariants
from harness.server import embedded_server
from pgq import embedded

# Caches are not in the dump.
CACHES = {
    "pgq.route",
    "pgq.routing",
    "pgq.filter",
    "pgq.filter_filter_id_seq",
    "pgq.filter_scan",
    "pgq.filter_hit",
    "pgq.result_waiter",
    "pgq.staged",  # whoever staged it finds out, and stages it again
}


@pytest.fixture(scope="module")
def here() -> Iterator[embedded.Server]:
    with embedded_server() as server:
        yield server


@pytest.fixture
def original(here: embedded.Server) -> Iterator[psycopg.Connection]:
    """A database whose messages are ready, leased, scheduled, failed and done."""
    here.drop_database("original")
    with psycopg.connect(here.create_database("original"), autocommit=True) as conn:
        conn.execute("create extension pgq")
        conn.execute(
            "select pgq.create_queue('orders', lane_keys => '{type}', lease => '1 hour',"
            " max_attempts => 2, backoff => '1 hour', max_backoff => '1 hour')"
        )
        conn.execute("select pgq.create_queue('plain')")
        for kind in ("ready", "leased", "retried", "buried", "done"):
            publish(conn, kind)
            if kind != "ready":
                lease = conn.execute(
                    "select lease_id from pgq.claim('orders', %s)",
                    [Jsonb({"type": kind})],
                ).fetchone()
                assert lease is not None
                end = {"retried": "nack", "buried": "bury", "done": "ack"}.get(kind)
                if end:
                    conn.execute(f"select pgq.{end}(%s)".encode(), lease)
        conn.execute("select pgq.publish('orders', '{}', delay => '1 hour')")
        conn.execute("select pgq.publish_batch('plain', array_fill('{}'::jsonb, '{300}'))")
        conn.execute(
            "select pgq.schedule('nightly', 'orders', '{}', '@daily', headers => '{\"a\": 1}')"
        )
        yield conn
    here.drop_database("original")


@pytest.fixture
def restored(here: embedded.Server, original: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """The same database, dumped and restored under another name."""
    here.drop_database("restored")
    dsn = here.create_database("restored")
    dump = run(here, "pg_dump", "--format=custom", "--dbname", here.dsn("original"))
    run(here, "pg_restore", "--exit-on-error", "--dbname", dsn, stdin=dump)
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield conn
    here.drop_database("restored")


@pytest.fixture
def rights(original: psycopg.Connection) -> Iterator[None]:
    """A role with rights in the original, and those of one that was dropped."""
    for role in ("keeper", "ghost"):
        original.execute(f"create role {role} login".encode())
        original.execute("select pgq.grant_queue('plain', %s, 'admin')", [role])
        original.execute("select pgq.schedule(%s, 'plain', '1', every => '1 h')", [role])
        original.execute("update pgq.schedule set role = %s::regrole where name = %s", [role, role])
    original.execute("drop owned by ghost")
    original.execute("drop role ghost")
    yield
    original.execute("drop owned by keeper")
    original.execute("drop role keeper")


def run(here: embedded.Server, program: str, *arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        [here.program(program), *arguments],
        input=stdin,
        capture_output=True,
        env=here.environment(),
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")  # a warning is mail from cron
    return done.stdout


def publish(conn: psycopg.Connection, kind: str) -> int:
    row = conn.execute("select pgq.publish('orders', '{}', %s)", [Jsonb({"type": kind})]).fetchone()
    assert row is not None
    number: int = row[0]
    return number


def state(conn: psycopg.Connection) -> dict[str, list[str]]:
    """Return all rows of all tables and the positions of all sequences."""
    found: dict[str, list[str]] = {}
    relations = conn.execute(
        "select oid::regclass::text, relkind from pg_class"
        " where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'S') order by 1"
    ).fetchall()
    for name, kind in relations:
        query = f"select t::text from {name} t" if kind == "r" else f"select last_value from {name}"
        found[name] = sorted(str(row[0]) for row in conn.execute(query.encode()))
    return found


def test_a_dump_keeps_every_row_and_sequence(
    original: psycopg.Connection, restored: psycopg.Connection
) -> None:
    before, after = state(original), state(restored)
    assert {name for name in before if before[name] != after[name]} <= CACHES
    assert before.keys() >= CACHES


def test_a_restored_queue_works(restored: psycopg.Connection) -> None:
    last = restored.execute("select max(id) from pgq.message").fetchone()
    assert last is not None
    assert publish(restored, "new") > last[0]
    ready = restored.execute("select headers ->> 'type' from pgq.claim('orders', n => 10)")
    assert ready.fetchall() == [("ready",), ("new",)]
    assert len(restored.execute("select from pgq.claim('plain', n => 1000)").fetchall()) == 300


def test_a_lease_outlives_the_dump(
    original: psycopg.Connection, restored: psycopg.Connection
) -> None:
    lease = original.execute("select lease_id from pgq.lease").fetchone()
    assert restored.execute("select pgq.ack(%s)", lease).fetchone() == (1,)


def test_a_dead_letter_outlives_the_dump(restored: psycopg.Connection) -> None:
    assert restored.execute("select pgq.replay('orders')").fetchone() == (1,)
    filtered = "select from pgq.claim('orders', '{\"type\": \"buried\"}')"
    assert len(restored.execute(filtered).fetchall()) == 1


def test_restored_queues_are_sound(restored: psycopg.Connection) -> None:
    assert check_invariants(restored) == []


def test_rights_outlive_the_dump(
    here: embedded.Server, rights: None, restored: psycopg.Connection
) -> None:
    assert restored.execute('select queue, role::text, "right" from pgq.rights').fetchall() == [
        ("plain", "keeper", "admin")
    ]
    with psycopg.connect(here.dsn("restored", user="keeper"), autocommit=True) as keeper:
        assert len(keeper.execute("select from pgq.claim('plain', n => 1000)").fetchall()) == 300
        keeper.execute("insert into pgq.message (topic, payload) values ('plain', '1')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            keeper.execute("select from pgq.claim('orders')")
    assert check_invariants(restored) == []


def test_the_first_maintenance_closes_row_types_again(
    rights: None, restored: psycopg.Connection
) -> None:
    restored.execute("call pgq.maintain()")
    assert (
        restored.execute(
            "select t.typname from pg_type t"
            " where t.typnamespace = 'pgq'::regnamespace and t.typtype = 'c'"
            " and has_type_privilege('public', t.oid, 'usage')"
        ).fetchall()
        == []
    )


def test_the_rights_of_a_dropped_role_are_not_dumped(
    original: psycopg.Connection, rights: None, restored: psycopg.Connection
) -> None:
    count = "select count(*) from pgq.queue_right"
    assert original.execute(count).fetchone() == (2,)
    assert restored.execute(count).fetchone() == (1,)


def test_schedules_outlive_the_dump(rights: None, restored: psycopg.Connection) -> None:
    found = restored.execute(
        "select name, role::text, next_at > now() from pgq.schedules order by name"
    ).fetchall()
    assert found == [("keeper", "keeper", True), ("nightly", None, True)]
    restored.execute("update pgq.schedule set next_at = now() - interval '1 s'")
    restored.execute("call pgq.maintain()")
    ready = restored.execute(
        "select headers ->> 'schedule' from pgq.claim('plain', n => 1000)"
        " where headers ? 'schedule'"
    ).fetchall()
    assert ready == [("keeper",)]


def test_a_restored_queue_takes_rights_back(rights: None, restored: psycopg.Connection) -> None:
    assert restored.execute("select pgq.revoke_queue('plain', 'keeper', 'admin')").fetchone() == (
        True,
    )
    usage = "select has_schema_privilege('keeper', 'pgq', 'usage')"
    assert restored.execute(usage).fetchone() == (False,)


def test_the_schema_pgmq_is_dumped_with_its_views(here: embedded.Server) -> None:
    here.drop_database("served")
    here.drop_database("served_again")
    with psycopg.connect(here.create_database("served"), autocommit=True) as conn:
        conn.execute("create extension pgq_pgmq cascade")
        conn.execute("select pgmq.create('orders'), pgmq.bind_topic('a.*', 'orders')")
        conn.execute("select pgmq.enable_notify_insert('orders')")
        conn.execute("select pgmq.send('orders', '1'), pgmq.send('orders', '2')")
        conn.execute("select pgmq.archive('orders', (select min(msg_id) from pgmq.q_orders))")
    dsn = here.create_database("served_again")
    dump = run(here, "pg_dump", "--format=custom", "--dbname", here.dsn("served"))
    run(here, "pg_restore", "--exit-on-error", "--dbname", dsn, stdin=dump)
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert conn.execute("select message from pgmq.a_orders").fetchall() == [(1,)]
        assert conn.execute("select pgmq.send_topic('a.b', '3')").fetchone() == (1,)
        assert conn.execute("select message from pgmq.read('orders', 1, 5)").fetchall() == [
            (2,),
            (3,),
        ]
        assert len(conn.execute("select pgmq.list_notify_insert_throttles()").fetchall()) == 1
    here.drop_database("served")
    here.drop_database("served_again")


def test_a_role_that_may_read_all_data_makes_the_backup(
    here: embedded.Server, original: psycopg.Connection
) -> None:
    original.execute("create role keeper login in role pg_read_all_data")
    try:
        dump = run(here, "pg_dump", "--dbname", here.dsn("original", user="keeper")).decode()
    finally:
        original.execute("drop role keeper")
    assert "COPY pgq.letter " in dump
    assert "COPY pgq.message_0 " in dump
