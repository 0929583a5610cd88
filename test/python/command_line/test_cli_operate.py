"""The commands of operators: queues, subscriptions, rights, schedules, messages that wait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import pgq
from harness.command import Command

TEST = {"type": "test"}


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", lane_keys=["type"])
    return client


@pytest.fixture
def role(db: psycopg.Connection) -> Iterator[str]:
    db.execute("create role pgq_cli_reader")
    yield "pgq_cli_reader"
    db.execute("drop owned by pgq_cli_reader")
    db.execute("drop role pgq_cli_reader")


def states(db: psycopg.Connection) -> dict[str, int]:
    rows = db.execute("select state, count(*) from pgq.message_state group by 1").fetchall()
    return dict(rows)


def fill(client: pgq.PooledClient) -> list[int]:
    """Publish two of the type test, one of another, and one that is scheduled."""
    headers = [TEST, TEST, {"type": "paid"}]
    ids = list(client.publish_batch("orders", [1, 2, 3], headers=headers))
    return [*ids, client.publish("orders", 4, headers=TEST, delay=timedelta(hours=1))]


# Queues


def test_alter_changes_the_given_parts_of_a_policy(
    pgq_run: Command, orders: pgq.PooledClient
) -> None:
    policy = orders.queue_policy("orders")
    assert policy is not None
    changes = (
        "--lease",
        "10m",
        "--on-dead",
        "block",
        "--dedup-window",
        "1h",
        "--set-size",
        50,
        "--dedup",
        "replace",
        "--max-lease",
        "1d",
    )
    assert pgq_run("alter", "orders", *changes, "--json").rows == [{"altered": True}]
    changed = orders.queue_policy("orders")
    assert changed == policy | {
        "lease": timedelta(minutes=10),
        "on_dead": "block",
        "dedup_window": timedelta(hours=1),
        "set_size": 50,
        "dedup": "replace",
        "max_lease": timedelta(days=1),
    }
    orders.publish("orders", "old", dedup_key="k")
    orders.publish("orders", "new", dedup_key="k")
    assert [m.payload for m in orders.claim("orders", n=10).messages] == ["new"]
    assert pgq_run("alter", "orders", "--lane-keys", "").code == 0
    assert not (orders.queue_policy("orders") or {})["lane_keys"]


def test_limits_are_set_listed_and_removed(pgq_run: Command) -> None:
    given = (
        "--max-leased",
        20,
        "--rate",
        "100/min",
        "--burst",
        5,
        "--fair",
        "--lane-keys",
        "a",
    )
    assert pgq_run("create", "calls", *given).code == 0
    (row,) = pgq_run("limits", "--json").rows
    assert (row["queue"], row["max_leased"], row["burst"], row["fair"]) == (
        "calls",
        20,
        5,
        True,
    )
    assert (
        pgq_run("alter", "calls", "--max-leased", 0, "--rate", "", "--burst", 0, "--no-fair").code
        == 0
    )
    result = pgq_run("limits")
    assert (result.out, result.err) == ("", "no limits\n")


def test_alter_refuses_invalid_values(pgq_run: Command, orders: pgq.PooledClient) -> None:
    assert pgq_run("alter", "orders").code == 2
    assert pgq_run("alter", "orders", "--max-leased", "-1").code == 2
    assert pgq_run("alter", "nowhere", "--lease", "1m").code == 1
    assert pgq_run("alter", "orders", "--rate", "many").code == 1


# Subscriptions


def test_queues_are_subscribed_and_unsubscribed(pgq_run: Command, orders: pgq.PooledClient) -> None:
    first = orders.publish("orders", 1, headers=TEST)
    filter = json.dumps(TEST)
    assert pgq_run("subscribe", "audit", "orders", filter, "--since-id", first).code == 0
    assert "already" in pgq_run("subscribe", "audit", "orders", filter).err
    assert pgq_run("subscribe", "audit", "mails.#", "--json").rows == [{"subscribed": True}]
    assert [row["id"] for row in pgq_run("peek", "audit", "--json").rows] == [first]
    rows = pgq_run("subscriptions", "audit", "--json").rows
    assert [(row["pattern"], row["filter"]) for row in rows] == [
        ("mails.#", None),
        ("orders", TEST),
    ]
    assert "mails.#" in pgq_run("subscriptions").out
    assert pgq_run("unsubscribe", "audit").code == 2
    assert pgq_run("unsubscribe", "audit", "orders", "--all").code == 2
    assert pgq_run("unsubscribe", "audit", "orders", "--json").rows == [{"unsubscribed": True}]
    assert "no such" in pgq_run("unsubscribe", "audit", "orders").err
    assert pgq_run("unsubscribe", "audit", "--all").out == "1\n"
    assert pgq_run("subscriptions").out == ""


# Rights


def test_rights_are_granted_listed_and_revoked(
    pgq_run: Command, orders: pgq.PooledClient, role: str
) -> None:
    assert pgq_run("grant", "orders", role, "consume", "--json").rows == [{"granted": True}]
    assert "already" in pgq_run("grant", "orders", role, "consume").err
    assert pgq_run("rights", "orders", "--json").rows == [
        {"queue": "orders", "role": role, "right": "consume"}
    ]
    assert pgq_run("grant", "orders", role, "everything").code == 2
    assert pgq_run("grant", "nowhere", role, "consume").code == 1
    assert pgq_run("revoke", "orders", role, "consume", "--json").rows == [{"revoked": True}]
    assert "does not have" in pgq_run("revoke", "orders", role, "consume").err
    assert pgq_run("rights").out == ""


# Leases and messages


def test_leases_list_holders_and_messages(pgq_run: Command, orders: pgq.PooledClient) -> None:
    assert pgq_run("leases").err == "no leases\n"
    orders.publish_batch("orders", [1, 2, 3])
    batch = orders.claim("orders", n=3)
    (row,) = pgq_run("leases", "orders", "--json").rows
    assert (row["lease_id"], row["queue"], row["size"]) == (
        batch[0].lease_id,
        "orders",
        3,
    )
    assert row["until"] > row["claimed_at"]
    assert str(batch[0].lease_id) in pgq_run("leases").out


def test_peek_takes_nothing(
    pgq_run: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    first, second, third, fourth = fill(orders)
    rows = pgq_run("peek", "orders", "--json").rows
    assert [row["id"] for row in rows] == [first, second, third]
    assert [row["id"] for row in pgq_run("peek", "orders", "-n", 1, "--json").rows] == [first]
    shown = pgq_run("peek", "orders", '{"type": "paid"}').out.splitlines()
    assert len(shown) == 3
    assert shown[2].split()[:2] == [str(third), "orders"]
    assert pgq_run("peek", "orders", '{"type": "none"}').err == "nothing is ready\n"
    rows = pgq_run("peek", "orders", "--state", "scheduled", "--json").rows
    assert [row["id"] for row in rows] == [fourth]
    assert "due_at" in pgq_run("peek", "orders", "--state", "scheduled").out
    assert pgq_run("peek", "orders", "--state", "dead").err == "nothing is dead\n"
    assert pgq_run("peek", "nowhere").code == 1
    assert states(db) == {"ready": 3, "delayed": 1}


def test_messages_are_cancelled_by_id_filter_and_key(
    pgq_run: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    first, _, third, _ = fill(orders)
    orders.publish("orders", 5, dedup_key="k")
    assert pgq_run("cancel", "orders").code == 2
    assert pgq_run("cancel", "orders", json.dumps(TEST), "--dry-run").out == "3\n"
    assert states(db) == {"ready": 4, "delayed": 1}
    result = pgq_run("cancel", "orders", "--id", first, "--id", third, "--json")
    assert result.rows == [{"cancelled": 2}]
    assert pgq_run("cancel", "orders", "--dedup-key", "k").out == "1\n"
    assert pgq_run("cancel", "orders", json.dumps(TEST)).out == "2\n"
    assert states(db) == {}


def test_a_queue_is_purged_but_never_by_oversight(
    pgq_run: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    fill(orders)
    orders.claim("orders")
    result = pgq_run("purge", "orders")
    assert result.code == 2
    assert "--all" in result.err
    assert pgq_run("purge", "orders", "--dry-run").out == "3\n"
    assert states(db) == {"leased": 1, "ready": 2, "delayed": 1}
    assert pgq_run("purge", "orders", '{"type": "paid"}').out == "1\n"
    result = pgq_run("purge", "orders", "--all", "--json")
    assert result.rows == [{"purged": 2}]
    assert result.err == "notice: purge leaves 1 leased messages as they are\n"
    assert states(db) == {"leased": 1}


def test_messages_are_moved(
    pgq_run: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.create_queue("slow")
    fill(orders)
    assert pgq_run("move", "orders", "slow").code == 2
    assert pgq_run("move", "orders", "slow", "--dry-run").out == "4\n"
    assert pgq_run("move", "orders", "slow", '{"type": "paid"}', "--json").rows == [{"moved": 1}]
    assert pgq_run("move", "orders", "slow", "-n", 1).out == "1\n"
    assert pgq_run("move", "orders", "slow", "--all").out == "2\n"
    assert pgq_run("move", "orders", "nowhere", "--all").code == 1
    rows = db.execute("select distinct queue from pgq.message_state").fetchall()
    assert rows == [("slow",)]


def test_messages_are_rescheduled(
    pgq_run: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    first, _, _, last = fill(orders)
    assert pgq_run("reschedule", "orders", "--delay", "1h").code == 2
    assert pgq_run("reschedule", "orders", "--all", "--at", "noon").code == 2
    assert pgq_run("reschedule", "orders", "--id", last, "--json").rows == [{"rescheduled": 1}]
    assert states(db) == {"ready": 4}
    at = "2999-01-31T06:00+01:00"
    assert pgq_run("reschedule", "orders", "--id", first, "--at", at).out == "1\n"
    ((due,),) = db.execute("select until from pgq.message_state where state = 'delayed'").fetchall()
    assert due == datetime(2999, 1, 31, 5, tzinfo=UTC)
    assert pgq_run("reschedule", "orders", json.dumps(TEST), "--delay", "1h").out == "3\n"
    assert states(db) == {"ready": 1, "delayed": 3}


# Schedules


def test_schedules_are_made_changed_paused_and_ended(pgq_run: Command) -> None:
    for queue in ("reports", "health"):
        assert pgq_run("create", queue).code == 0
    result = pgq_run(
        "schedule", "nightly", "reports", '{"day": 1}', "--cron", "0 3 * * *", "--json"
    )
    next_at = datetime.fromisoformat(result.rows[0]["next_at"])
    assert next_at.astimezone(UTC).hour == 3
    more = (
        "--every",
        "30s",
        "--missed",
        "skip",
        "--headers",
        '{"a": 1}',
        "--expires-in",
        "1m",
    )
    assert pgq_run("schedule", "beat", "health", "true", *more).code == 0
    beat, nightly = pgq_run("schedules", "--json").rows
    wanted: dict[str, Any] = {
        "topic": "health",
        "payload": True,
        "every": 30.0,
        "missed": "skip",
    }
    assert wanted.items() <= beat.items()
    assert (nightly["cron"], nightly["payload"]) == ("0 3 * * *", {"day": 1})
    assert pgq_run("schedule", "nightly", "reports", "1").code == 2
    assert pgq_run("schedule", "nightly", "reports", "1", "--cron", "never").code == 1

    assert pgq_run("pause", "--schedule", "nightly", "--json").rows == [{"paused": True}]
    shown = pgq_run("schedules").out.splitlines()
    assert shown[0].split()[:4] == ["name", "topic", "times", "state"]
    assert "every 30s" in shown[2]
    assert "0 3 * * * UTC  paused" in shown[3]
    assert pgq_run("resume", "--schedule", "nightly").code == 0
    assert pgq_run("unschedule", "nightly", "--json").rows == [{"unscheduled": True}]
    assert "no such" in pgq_run("unschedule", "nightly").err
    assert pgq_run("unschedule", "beat").code == 0
    assert pgq_run("schedules").err == "no schedules\n"


# Findings


def test_findings_are_listed_with_their_cures(pgq_run: Command, orders: pgq.PooledClient) -> None:
    def of(*options: str) -> list[str]:
        return [row["finding"] for row in pgq_run("findings", "orders", "--json", *options).rows]

    assert "paused" not in of()
    orders.publish("orders", 1)
    orders.pause("orders")
    assert "paused" in of()
    result = pgq_run("findings", "orders")
    assert result.code == 3
    assert "cure: select pgq.resume('orders')" in result.out
    assert "\x1b" not in result.out
    assert of("--severity", "critical") == []
    orders.create_queue("empty")
    result = pgq_run("findings", "empty")
    assert (result.code, result.out, result.err) == (0, "", "nothing is found\n")
