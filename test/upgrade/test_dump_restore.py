"""A dump keeps everything: restored elsewhere, the queues go on where they were."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.types.json import Jsonb

from harness.install import check_invariants
from harness.server import embedded_server
from pgq import embedded

# What a database learns again by itself is not worth a place in the dump.
LEARNT = {
    *("pgq.route", "pgq.routing", "pgq.filter", "pgq.filter_filter_id_seq"),
    *("pgq.filter_scan", "pgq.filter_hit"),
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
                    "select lease_id from pgq.claim('orders', %s)", [Jsonb({"type": kind})]
                ).fetchone()
                assert lease is not None
                end = {"retried": "nack", "buried": "bury", "done": "ack"}.get(kind)
                if end:
                    conn.execute(f"select pgq.{end}(%s)".encode(), lease)
        conn.execute("select pgq.publish('orders', '{}', delay => '1 hour')")
        conn.execute("select pgq.publish_batch('plain', array_fill('{}'::jsonb, '{300}'))")
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
    assert done.returncode == 0, done.stderr.decode()
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
    assert {name for name in before if before[name] != after[name]} <= LEARNT
    assert before.keys() >= LEARNT


def test_a_restored_queue_goes_on(restored: psycopg.Connection) -> None:
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


def test_the_rights_of_a_dropped_role_are_not_dumped(
    original: psycopg.Connection, rights: None, restored: psycopg.Connection
) -> None:
    count = "select count(*) from pgq.queue_right"
    assert original.execute(count).fetchone() == (2,)
    assert restored.execute(count).fetchone() == (1,)


def test_a_restored_queue_takes_rights_back(rights: None, restored: psycopg.Connection) -> None:
    assert restored.execute("select pgq.revoke_queue('plain', 'keeper', 'admin')").fetchone() == (
        True,
    )
    usage = "select has_schema_privilege('keeper', 'pgq', 'usage')"
    assert restored.execute(usage).fetchone() == (False,)
