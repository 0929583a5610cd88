"""Failing connections, full disks, wrong data: a clear error, and nothing has changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

import pgq
from harness.contents import unchanged
from harness.install import check_invariants
from harness.server import embedded_server
from pgq import embedded

Connect = Callable[..., psycopg.Connection]


def value(db: psycopg.Connection, query: str) -> Any:
    row = db.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


# Somebody is in the way

# Everything that changes something. LEASE is a lease with messages.
CHANGES = [
    "select pgq.publish('orders', '1', dedup_key => 'k')",
    "select pgq.publish_batch('orders', '{1,2}', '{\"{\\\"type\\\": \\\"new\\\"}\", null}')",
    "insert into pgq.message (topic, payload, group_key) values ('orders', '1', 'g')",
    "select from pgq.claim('orders', n => 2)",
    "select from pgq.claim('orders', '{\"type\": \"paid\"}', n => 2)",
    "select from pgq.claim('orders', key => 'batch')",
    "select pgq.ack(LEASE)",
    "select pgq.nack(LEASE, error => 'no')",
    "select pgq.bury(LEASE)",
    "select pgq.release(LEASE)",
    "select pgq.extend(LEASE)",
    "select pgq.replay('orders')",
    "select pgq.discard('orders')",
    "select pgq.seen('handler', 1)",
    "select pgq.reply(1, '1')",
    "select pgq.create_queue('more')",
    "select pgq.alter_queue('orders', lane_keys => '{type, region}')",
    "select pgq.drop_queue('orders', force => true)",
    "select pgq.pause('orders')",
    "select pgq.subscribe('audit', 'orders', '{\"type\": \"paid\"}')",
    "select pgq.unsubscribe_all('all')",
    "select pgq.wait_begin('orders', 'me')",
    "call pgq.maintain()",
]


@pytest.fixture
def lease(db: psycopg.Connection) -> int:
    """A lease of a queue that has rows in every table."""
    db.execute("select pgq.create_queue('orders', lane_keys => '{type}', max_attempts => 1)")
    db.execute("select pgq.create_queue('answers')")
    db.execute("select pgq.subscribe('all', '#')")
    db.execute(
        "select pgq.publish('orders', to_jsonb(i), jsonb_build_object('type', 'paid'),"
        " reply_to => 'answers') from generate_series(1, 10) i"
    )
    db.execute("select pgq.publish('orders', '0', delay => '1 hour')")
    db.execute("select pgq.publish('orders', '0', group_key => 'g') from generate_series(1, 2)")
    db.execute("select pgq.nack(lease_id) from pgq.claim('orders')")
    return int(value(db, "select lease_id from pgq.claim('orders', n => 3)"))


def wait_until_blocked(db: psycopg.Connection, pid: int) -> None:
    deadline = time.monotonic() + 60
    while not value(db, f"select cardinality(pg_blocking_pids({pid})) > 0"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.unpooled("interrupts one session")
@pytest.mark.parametrize("mode", ["access exclusive", "exclusive"])
@pytest.mark.parametrize("how", ["statement_timeout", "lock_timeout", "cancel", "terminate"])
def test_what_is_interrupted_has_changed_nothing(
    connect: Connect, db: psycopg.Connection, lease: int, how: str, mode: str
) -> None:
    """Every table is locked, for all or for writers only."""
    expected = {"lock_timeout": "55P03", "terminate": "57P01"}.get(how, "57014")
    tables = value(
        db,
        "select string_agg(oid::regclass::text, ', ') from pg_class"
        " where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'p')",
    )
    blocker, other = connect(autocommit=False), connect()
    for statement in CHANGES:
        with unchanged(db), connect() as victim:
            blocker.execute(f"lock table {tables} in {mode} mode".encode())
            pid = victim.info.backend_pid
            helper = threading.Thread(target=interrupt, args=(other, pid, how))
            if how.endswith("timeout"):
                victim.execute(f"set {how} = '20ms'".encode())
            else:
                helper.start()
            with pytest.raises(psycopg.OperationalError) as caught:
                victim.execute(statement.replace("LEASE", str(lease)).encode())
            assert (statement, caught.value.sqlstate) == (statement, expected)
            if helper.ident is not None:
                helper.join()
            blocker.rollback()


def interrupt(db: psycopg.Connection, pid: int, how: str) -> None:
    wait_until_blocked(db, pid)
    db.execute(f"select pg_{how}_backend({pid})".encode())


@pytest.mark.unpooled("its session has a setting of its own")
def test_a_claim_that_is_cancelled_while_it_tests_messages_has_taken_nothing(
    connect: Connect, db: psycopg.Connection
) -> None:
    db.execute("select pgq.create_queue('orders')")
    db.execute(
        "select count(*) from pgq.publish_batch('orders', array_fill('1'::jsonb, array[50000]))"
    )
    victim = connect()
    victim.execute("set statement_timeout = '5ms'")
    with unchanged(db), pytest.raises(psycopg.errors.QueryCanceled):
        victim.execute("select from pgq.claim('orders', '{\"type\": \"none\"}', n => 50000)")


# Stricter isolation


@pytest.mark.parametrize(
    "level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE], ids=lambda v: v.name
)
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("select from pgq.claim('orders')", "select from pgq.claim('orders')"),
        (
            "select from pgq.claim('orders')",
            "select from pgq.claim('orders', '{\"type\": \"paid\"}')",
        ),
        ("select pgq.ack(LEASE)", "select pgq.ack(LEASE)"),
        ("select pgq.extend(LEASE, '1 hour')", "select pgq.ack(LEASE)"),
        ("select pgq.extend(LEASE, '1 hour')", "select pgq.nack(LEASE)"),
        ("select pgq.extend(LEASE, '1 hour')", "select pgq.bury(LEASE)"),
        ("select pgq.extend(LEASE, '1 hour')", "select pgq.extend(LEASE)"),
        (
            "select pgq.alter_queue('orders', lane_keys => '{a}')",
            "select pgq.publish('orders', '1')",
        ),
        ("select pgq.replay('orders')", "select pgq.replay('orders')"),
    ],
)
def test_a_lost_race_is_a_serialization_failure(
    connect: Connect,
    db: psycopg.Connection,
    lease: int,
    level: IsolationLevel,
    theirs: str,
    ours: str,
) -> None:
    strict = connect(autocommit=False)
    strict.isolation_level = level
    strict.execute("select from pgq.queue")
    db.execute(theirs.replace("LEASE", str(lease)).encode())
    with unchanged(db):
        with pytest.raises(psycopg.errors.SerializationFailure):
            strict.execute(ours.replace("LEASE", str(lease)).encode())
        strict.rollback()


# No room


def test_without_a_free_connection_those_that_are_there_go_on() -> None:
    with (
        embedded_server(max_connections=8, superuser_reserved_connections=0) as server,
        psycopg.connect(server.dsn(), autocommit=True) as db,
    ):
        db.execute("create extension pgq")
        db.execute("select pgq.create_queue('orders')")
        others = []

        def take_all() -> None:
            while True:
                others.append(psycopg.connect(server.dsn()))

        with unchanged(db):
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                take_all()
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                pgq.connect(server.dsn())
        db.execute("select pgq.publish('orders', '1')")
        db.execute("select pgq.ack(lease_id) from pgq.claim('orders')")
        for conn in others:
            conn.close()
        with pgq.connect(server.dsn()) as client:
            client.publish("orders", 2)
        assert check_invariants(db) == []


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 48 MB."""
    with TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", directory],
            capture_output=True,
            check=False,
        )
        if mounted.returncode != 0:
            pytest.skip("only root may mount a file system")
        try:
            yield Path(directory)
        finally:
            subprocess.run(["umount", "-l", directory], check=True)


def give_all(source: Path, target: Path) -> None:
    """Make the owner of one directory the owner of all that is in another."""
    owner = source.stat()
    for path in (target, *target.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)


def repeat(db: psycopg.Connection, statement: str) -> None:
    """Run a statement until it fails."""
    while True:
        db.execute(statement.encode())


NOISE = "(select string_agg(md5(random()::text || i), '') from generate_series(1, 20000) i)"


def test_on_a_full_disk_nothing_changes_and_later_everything_works(small_disk: Path) -> None:
    with embedded_server() as server:
        give_all(server.data, small_disk)
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute(f"create tablespace small location '{small_disk}'".encode())
            conn.execute("create database small tablespace small")
        with psycopg.connect(server.dsn("small"), autocommit=True) as db:
            db.execute("create extension pgq")
            db.execute("select pgq.create_queue('orders')")
            db.execute("select pgq.publish('orders', to_jsonb(i)) from generate_series(1, 100) i")
            db.execute("create table filler (noise text)")
            db.execute("alter table filler alter noise set storage external")
            for size in (20_000, 1_000, 100, 1):
                with pytest.raises(psycopg.errors.DiskFull):
                    repeat(db, f"insert into filler values ({NOISE})".replace("20000", str(size)))
            with unchanged(db), pytest.raises(psycopg.errors.DiskFull):
                db.execute(f"select pgq.publish('orders', to_jsonb({NOISE}))".encode())
            with unchanged(db), pytest.raises(psycopg.errors.DiskFull):
                db.execute(
                    f"select pgq.publish_batch('orders', array(select to_jsonb({NOISE})"
                    " from generate_series(1, 3)))".encode()
                )
            db.execute("drop table filler")
            db.execute("checkpoint")
            db.execute(f"select pgq.publish('orders', to_jsonb({NOISE}))".encode())
            rows = db.execute("select payload from pgq.claim('orders', n => 1000)").fetchall()
            assert [row[0] for row in rows[:100]] == list(range(1, 101))
            assert len(rows) == 101
            assert check_invariants(db) == []


def test_what_was_committed_survives_a_full_disk_of_the_write_ahead_log(small_disk: Path) -> None:
    """The server stops, and works again when there is space."""
    settings: dict[str, embedded.Setting] = {"max_wal_size": "1GB", "restart_after_crash": False}
    with embedded.start(settings=settings) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as db:
            db.execute("create extension pgq")
            db.execute("select pgq.create_queue('orders')")
        server.stop()
        log = server.data / "pg_wal"
        subprocess.run(["cp", "-a", f"{log}/.", str(small_disk)], check=True)
        subprocess.run(["rm", "-r", str(log)], check=True)
        log.symlink_to(small_disk)
        give_all(server.data, small_disk)
        server.start()
        published = []

        def publish_on() -> None:
            with psycopg.connect(server.dsn(), autocommit=True) as db:
                while True:
                    statement = f"select pgq.publish('orders', to_jsonb({NOISE}))"
                    published.append(value(db, statement))

        with pytest.raises(psycopg.OperationalError):
            publish_on()
        server.stop("immediate")
        assert re.search(r"PANIC.*No space left on device", server.log())
        subprocess.run(["mount", "-o", "remount,size=1g", str(small_disk)], check=True)
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as db:
            rows = db.execute("select id from pgq.claim('orders', n => 100000)").fetchall()
            assert len(published) > 3
            assert set(published) <= {row[0] for row in rows}
            assert check_invariants(db) == []


# Bad data


def test_a_payload_of_100_megabytes_travels_whole(db: psycopg.Connection) -> None:
    db.execute("select pgq.create_queue('orders')")
    text = "0123456789" * 10_000_000
    id = pgq.Client(db).publish("orders", text)
    row = db.execute(
        "select lease_id, length(payload #>> '{}'), md5(payload #>> '{}') from pgq.claim('orders')"
    ).fetchone()
    assert row is not None
    lease, length, md5 = row
    assert length == len(text)
    assert md5 == value(db, "select md5(repeat('0123456789', 10000000))")
    db.execute("select pgq.bury(%s)", [lease])
    assert value(db, "select length(payload #>> '{}') from pgq.dead_letter") == len(text)
    db.execute("select pgq.replay('orders')")
    assert value(db, "select id from pgq.claim('orders')") == id


def test_a_payload_that_is_too_large_is_refused(db: psycopg.Connection) -> None:
    db.execute("select pgq.create_queue('orders')")
    with unchanged(db), pytest.raises(psycopg.errors.ProgramLimitExceeded):
        db.execute("select pgq.publish('orders', to_jsonb(repeat('x', 300000000)))")


def nested(depth: int) -> str:
    return '{"a": ' * depth + "1" + "}" * depth


LONG = os.urandom(5000).hex().encode()

# What is sent, and the SQLSTATE that answers; None: it is fine.
DATA: dict[str, tuple[str, list[bytes], str | None]] = {
    "a million headers": (
        "select pgq.publish('orders', '1', $1)",
        [json.dumps({f"key{i}": i for i in range(1_000_000)}).encode()],
        None,
    ),
    "a nested payload": ("select pgq.publish('orders', $1)", [nested(500).encode()], None),
    "a deep payload": ("select pgq.publish('orders', $1)", [nested(200_000).encode()], "54001"),
    "deep headers": ("select pgq.publish('orders', '1', $1)", [nested(200_000).encode()], "54001"),
    "nested headers": ("select pgq.publish('orders', '1', $1)", [nested(2).encode()], "22023"),
    "a deep filter": ("select from pgq.claim('orders', $1)", [nested(200_000).encode()], "54001"),
    "a deep $not": (
        "select from pgq.claim('orders', $1)",
        [('{"$not": ' * 5000 + '{"a": 1}' + "}" * 5000).encode()],
        "QU004",
    ),
    "a million filter keys": (
        "select from pgq.claim('orders', $1)",
        [json.dumps({f"key{i}": i for i in range(1_000_000)}).encode()],
        "QU004",
    ),
    "invalid UTF-8 in a payload": ("select pgq.publish('orders', $1)", [b'"\xff\xfe"'], "22021"),
    "invalid UTF-8 in a topic": ("select pgq.publish($1, '1')", [b"\xc3("], "22021"),
    "invalid UTF-8 in a filter": (
        "select from pgq.claim('orders', $1)",
        [b'{"a": "\xed"}'],
        "22021",
    ),
    "invalid UTF-8 in an error": ("select pgq.nack(LEASE, error => $1)", [b"\xff"], "22021"),
    "NUL in a payload": ("select pgq.publish('orders', $1)", [rb'"\u0000"'], "22P05"),
    "NUL in a header": ("select pgq.publish('orders', '1', $1)", [rb'{"a": "\u0000"}'], "22P05"),
    "NUL in a filter": ("select from pgq.claim('orders', $1)", [rb'{"a": "\u0000"}'], "22P05"),
    "half a surrogate": ("select pgq.publish('orders', $1)", [rb'"\ud800"'], "22P02"),
    "a huge topic": ("select pgq.publish($1, '1')", [b"x" * 10_000_000], "22023"),
    # These are found by an index, which takes 2700 bytes.
    "a huge group": (
        "select pgq.publish('orders', '1', group_key => $1)",
        [LONG],
        "54000",
    ),
    "a huge dedup key": (
        "select pgq.publish('orders', '1', dedup_key => $1)",
        [LONG],
        "54000",
    ),
    "a huge correlation": (
        "select pgq.publish('orders', '1', correlation_id => $1)",
        [LONG],
        "54000",
    ),
    "a huge claim key": (
        "select from pgq.claim('orders', key => $1)",
        [LONG],
        "54000",
    ),
    "a huge waiter": (
        "select pgq.wait_begin('orders', $1)",
        [LONG],
        "22023",
    ),
    "a huge handler": (
        "select pgq.seen($1, 1)",
        [LONG],
        "54000",
    ),
    "a huge header that sorts": (
        "select pgq.publish('orders', '1', jsonb_build_object('type', $1::text))",
        [LONG],
        None,
    ),
}


@pytest.mark.parametrize("name", DATA)
def test_odd_data_is_taken_whole_or_refused(
    connect: Connect, db: psycopg.Connection, lease: int, name: str
) -> None:
    statement, parameters, expected = DATA[name]
    sender = connect()
    statement = statement.replace("LEASE", str(lease))
    before = value(db, "select count(*) from pgq.message")

    def send() -> str | None:
        # As bytes: a driver would refuse to send some of them.
        result = sender.pgconn.exec_params(statement.encode(), list(parameters))
        code = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
        return None if code is None else code.decode()

    if expected is None:
        assert send() is None
        assert value(db, "select count(*) from pgq.message") == before + 1
        assert value(db, "select count(*) from pgq.claim('orders', n => 100)") > 7
    else:
        with unchanged(db):
            assert send() == expected
