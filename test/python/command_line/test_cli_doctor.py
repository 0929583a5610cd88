"""Each finding of ``pgq doctor`` is provoked, and disappears after its cure."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgq
from harness.command import Command
from harness.damage import damage
from harness.server import embedded_server
from pgq import __version__
from pgq.cli import doctor
from pgq.cli.checks import CHECKS

Connect = Callable[..., psycopg.Connection]
Examine = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def examine(pgq_run: Command) -> Examine:
    """Run one check; return its findings, and compare the exit code."""

    def examine(name: str, *options: object) -> list[dict[str, Any]]:
        result = pgq_run("doctor", "--only", name, "--json", *options)
        found = [row for row in result.rows if row["verdict"] != "ok"]
        problems = [row for row in found if row["verdict"] == "problem"]
        assert result.code == (3 if problems else 0), result.err
        assert all(row["check"] == name and row["cure"] for row in found)
        return found

    return examine


def test_a_healthy_database_gets_a_clean_bill(pgq_run: Command, client: pgq.PooledClient) -> None:
    client.create_queue("orders", lane_keys=["type"])
    client.publish("orders", 1)
    result = pgq_run("doctor", "--deep")
    assert result.code == 0, result.out
    lines = result.out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        *(["ok", check.name] for check in CHECKS),
        ["ok", "state"],
    ]


def test_another_version_is_found(
    examine: Examine, db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "__version__", "99.0.0")
    (found,) = examine("version")
    assert found["finding"] == f"the database has version {__version__}, this client is 99.0.0"
    assert found["cure"] == "pgq install"
    monkeypatch.setattr(doctor, "__version__", "0.0.1")
    (found,) = examine("version")
    assert found["cure"] == f"pip install pgq-client=={__version__}"
    monkeypatch.undo()


def test_code_of_another_version_than_the_catalog_is_found(
    examine: Examine, db: psycopg.Connection
) -> None:
    if db.execute("select from pg_extension where extname = 'pgq'").fetchone() is None:
        pytest.skip("pgq is installed without files here")
    db.execute("update pg_extension set extversion = '0.0.1' where extname = 'pgq'")
    (found,) = examine("version")
    assert found["finding"].startswith("extension pgq")
    db.execute("update pg_extension set extversion = %s where extname = 'pgq'", [__version__])
    assert examine("version") == []


def test_the_holder_of_the_oldest_snapshot_is_found_and_ended(
    examine: Examine, connect: Connect, db: psycopg.Connection
) -> None:
    holder = connect(autocommit=False, application_name="reporting")
    holder.execute("set transaction isolation level repeatable read")
    (pid,) = holder.execute("select pg_backend_pid()").fetchone() or ()
    holder.execute("select 'a long report'")
    time.sleep(0.05)
    assert examine("snapshot") == []  # it is young
    (found,) = examine("snapshot", "--snapshot-age", "10ms")
    assert found["name"] == "long_transaction"
    assert str(pid) in found["finding"]
    assert "reporting" in found["finding"]
    assert "a long report" in found["finding"]
    cure = found["cure"].split(";")[0]
    assert cure == f"select pg_terminate_backend({pid})"
    db.execute(cure)
    for _ in range(100):
        if not examine("snapshot", "--snapshot-age", "10ms"):
            break
        time.sleep(0.05)
    else:
        pytest.fail("it is still there")


def test_a_role_that_cannot_see_other_sessions_is_informed(
    examine: Examine, dsn: str, role: str, db: psycopg.Connection
) -> None:
    (found,) = examine("snapshot", "--dsn", make_conninfo(dsn, user=role, password="cli"))
    assert found["verdict"] == "unknown"
    db.execute(sql.SQL("grant pg_monitor to {}").format(sql.Identifier(role)))
    assert examine("snapshot", "--dsn", make_conninfo(dsn, user=role, password="cli")) == []


def test_a_night_in_which_everything_was_ok(pgq_run: Command, client: pgq.PooledClient) -> None:
    """2,044 messages without a consumer, 733 dead letters and a pause must be findings."""
    for name in ("reports", "webhooks", "emails", "imports"):
        client.create_queue(name, max_attempts=1)
    client.publish_batch("reports", [1] * 2044)
    for name, dead in (("webhooks", 696), ("emails", 37)):
        client.publish_batch(name, [1] * dead)
        client.claim(name, n=1000).nack(error="HTTP 404")
    client.publish("imports", 1)
    client.pause("imports")
    result = pgq_run("doctor", "--json")
    assert result.code == 3
    found = {(row["subject"], row["name"]): row for row in result.rows if row["verdict"] != "ok"}
    assert ("queue reports", "growing") in found
    assert "696 in all" in found["queue webhooks", "dead_letters_rising"]["finding"]
    assert "37 in all" in found["queue emails", "dead_letters_rising"]["finding"]
    assert found["queue imports", "paused"]["cure"] == "select pgq.resume('imports')"
    assert all(row["cure"] for row in found.values())


def test_a_queue_without_consumers_is_found(
    examine: Examine, client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders")
    client.create_queue("kept", mode="archive")
    for name in ("kept", "orders"):
        client.publish_batch(name, [1] * 3)
    assert examine("backlog") == []
    damage(db, "update pgq.message set published_at = published_at - interval '18 min'")
    (found,) = examine("backlog")
    assert found["subject"] == "queue orders"
    assert found["finding"] == "nobody consumes it: 3 ready, the oldest for 18 min"
    client.claim("orders", n=10).ack()
    assert examine("backlog") == []


def test_relays_that_are_silent_or_rest_are_found(
    examine: Examine, client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders")
    db.execute("select pgq.relay_report('orders', 'relay', 'redis://host', 'open', 'refused')")
    (found,) = examine("relays")
    assert "no heartbeat" in found["finding"]
    db.execute("select pgq.stream_begin('orders', 'relay', 'me')")
    (found,) = examine("relays")
    assert found["name"] == "relay_fails"
    assert found["finding"] == "relay relay: redis://host fails: refused"
    db.execute("select pgq.relay_report('orders', 'relay', 'redis://host')")
    assert examine("relays") == []


def test_too_many_lanes_are_found(
    examine: Examine, client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders", lane_keys=["customer", "order"])
    for customers in range(2):
        headers = [{"customer": f"{customers}-{number}", "order": 1} for number in range(1200)]
        client.publish_batch("orders", [1] * 1200, headers=headers)
        assert examine("lanes") == [], "one key may have any number of values"
    headers = [{"order": number} for number in range(1200)]
    client.publish_batch("orders", [1] * 1200, headers=headers)
    (found,) = examine("lanes")
    assert found["finding"].startswith("order have more than 1000 combinations of values")
    assert found["cure"].startswith("select pgq.alter_queue('orders', lane_keys")
    client.alter_queue("orders", lane_keys=[])
    assert examine("lanes") == []


def test_leases_that_end_are_found(
    examine: Examine, connect: Connect, client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders", lease=timedelta(milliseconds=50))
    client.publish("orders", 1)
    worker = connect(application_name="slow worker")
    worker.execute("select pgq.claim('orders')")
    time.sleep(0.1)
    client.maintain()
    (found,) = examine("leases")
    assert found["finding"].startswith("1 messages were redelivered")
    assert "select pgq.alter_queue('orders', lease => '00:00:00.2')" in found["cure"]
    db.execute("update pgq.traffic set minute = minute - interval '1 h'")
    db.execute("update pgq.journal set at = at - interval '1 h'")
    assert examine("leases") == []


def test_expired_leases_are_found(
    examine: Examine, client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders")
    client.publish("orders", 1)
    db.execute(
        "create or replace function pgq.now() returns timestamptz language sql volatile"
        " return clock_timestamp() - interval '10 min'"
    )
    client.claim("orders")
    db.execute(
        "create or replace function pgq.now() returns timestamptz language sql volatile"
        " return clock_timestamp()"
    )
    (found,) = examine("leases")
    assert "are not taken back" in found["finding"]
    assert found["cure"] == "call pgq.maintain()"
    client.maintain()
    assert all("nobody" not in found["finding"] for found in examine("leases"))


def test_a_log_that_is_not_rotated_is_found(
    examine: Examine, client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders")
    client.publish("orders", 1)
    assert examine("log") == []
    damage(db, "update pgq.message set published_at = now() - interval '2 days'")
    (found,) = examine("log")
    assert found["name"] == "maintain_never"

    client.maintain()
    assert examine("log") == []
    db.execute("update pgq.era set started_at = now() - interval '2 days'")
    (found,) = examine("log")
    assert found["name"] == "rotation_overdue"
    assert found["finding"].startswith("era 0 began")
    assert found["cure"].startswith("call pgq.maintain()")

    client.maintain()  # the cure
    assert examine("log") == []
    db.execute("update pgq.era set started_at = now() - interval '2 days' where number = 1")
    client.publish("orders", 2)
    ended = [found for found in examine("log") if "still there" in found["finding"]]
    assert [(found["name"], found["finding"][:5]) for found in ended] == [
        ("rotation_overdue", "era 0")
    ]
    client.claim("orders", n=5).ack()
    for _ in range(3):
        client.maintain()
    assert examine("log") == []


def test_a_table_without_autovacuum_is_found(examine: Examine, db: psycopg.Connection) -> None:
    db.execute("alter table pgq.ready set (autovacuum_enabled = off)")
    (found,) = examine("autovacuum")
    assert found["finding"].startswith("table pgq.ready")
    db.execute(found["cure"])
    assert examine("autovacuum") == []


def test_a_server_without_autovacuum_is_found(pgq_run: Command) -> None:
    with embedded_server(autovacuum=False, track_counts=False) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
        result = pgq_run("doctor", "--only", "autovacuum", "--json", "--dsn", server.dsn())
        assert [row["finding"].split()[:2] for row in result.rows] == [
            ["setting", "autovacuum"],
            ["setting", "track_counts"],
        ]
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            for row in result.rows:
                for statement in row["cure"].split("; "):
                    conn.execute(statement)
        for _ in range(100):
            code = pgq_run("doctor", "--only", "autovacuum", "--dsn", server.dsn()).code
            if code == 0:
                break
            time.sleep(0.05)
        assert code == 0


@pytest.fixture
def role(db: psycopg.Connection) -> Iterator[str]:
    """A role without any right in pgq."""
    name = f"pgq_cli_role_{os.getpid()}"
    db.execute(sql.SQL("create role {} login password 'cli'").format(sql.Identifier(name)))
    yield name
    db.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
    db.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))
    db.execute("call pgq.maintain()")  # which sweeps the rights of roles that are gone


def test_missing_grants_are_found_and_the_cure_is_enough(
    examine: Examine, connect: Connect, db: psycopg.Connection, role: str
) -> None:
    db.execute("select pgq.create_queue('orders')")
    found = examine("grants", "--role", role)
    assert found[0]["cure"] == f"select pgq.grant_queue('QUEUE', '{role}', 'consume')"
    assert [row["finding"].split()[3] for row in found[1:]] == ["consume", "publish"]
    for row in found:
        db.execute(row["cure"].replace("QUEUE", "orders"))
    assert examine("grants", "--role", role) == []

    app = connect(user=role, password="cli")
    client = pgq.Client(app)
    client.publish("orders", 1)
    client.publish_batch("orders", [2, 3, 4])
    client.claim("orders", n=1).ack()
    client.claim("orders", n=1).nack(error="no")
    client.claim("orders", n=1).bury()
    batch = client.claim("orders", n=1)
    batch.extend()
    assert batch.lease_id is not None
    assert len(client.leased(batch.lease_id)) == 1
    batch.release()


def test_a_role_with_half_of_the_rights_is_found(
    examine: Examine, db: psycopg.Connection, role: str
) -> None:
    name = sql.Identifier(role)
    assert examine("grants") == []  # it has nothing to do with pgq
    db.execute(sql.SQL("grant usage on schema pgq to {}").format(name))
    assert len(examine("grants")) == 2  # it can call nothing
    for (function,) in db.execute(
        "select oid::regprocedure::text from pg_proc where proname in ('publish', 'publish_batch')"
    ).fetchall():
        db.execute(sql.SQL("grant execute on function {} to {}").format(sql.SQL(function), name))
    assert examine("grants") == []  # a publisher need not consume
    db.execute(sql.SQL("grant execute on function pgq.claim to {}").format(name))
    (found,) = examine("grants")
    assert found["finding"].startswith(f"role {role}")
    assert "pgq.ack(bigint,bigint[],pgq.caller)" in found["finding"]
    db.execute("select pgq.create_queue('orders')")
    db.execute(found["cure"].replace("QUEUE", "orders"))
    assert examine("grants") == []


def test_a_role_without_rights_is_informed(
    examine: Examine, dsn: str, role: str, db: psycopg.Connection
) -> None:
    (unknown,) = examine("leases", "--dsn", make_conninfo(dsn, user=role, password="cli"))
    assert unknown["verdict"] == "unknown"


def test_a_role_that_is_not_there_is_found(examine: Examine) -> None:
    (found,) = examine("grants", "--role", "nobody_knows")
    assert found["finding"] == "role nobody_knows: there is no such role"


def test_a_prepared_transaction_is_found(pgq_run: Command) -> None:
    with embedded_server(max_prepared_transactions=2) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("begin")
            conn.execute("create table forgotten ()")
            conn.execute("prepare transaction 'left behind'")
        look = ("doctor", "--only", "snapshot", "--snapshot-age", "0", "--dsn", server.dsn())
        (found,) = pgq_run(*look, "--json").rows
        assert found["name"] == "prepared_transaction"
        assert found["finding"].startswith("prepared transaction left behind")
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute(found["cure"])
        assert pgq_run(*look).code == 0


def test_a_forgotten_replication_slot_is_found(pgq_run: Command) -> None:
    with embedded_server(wal_level="logical") as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("select pg_create_logical_replication_slot('copy', 'pgoutput')")
        look = ("doctor", "--only", "snapshot", "--dsn", server.dsn())
        (found,) = pgq_run(*look, "--json").rows
        assert found["name"] == "idle_slot"
        assert found["finding"].startswith("replication slot copy")
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute(found["cure"])
        assert pgq_run(*look).code == 0
