"""A client whose role has rights to one queue, and none to another."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import count

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgq
from pgq import Draft
from pgq.relay import Memory, Relay

_numbers = count(1)


@pytest.fixture
def guest(dsn: str, client: pgq.PooledClient) -> Iterator[pgq.PooledClient]:
    """A client of a role that may publish to "orders" and consume it, and nothing else."""
    role = f"pgq_guest_{next(_numbers)}"
    client.create_queue("orders")
    client.create_queue("secret")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"create role {role} login password 'guest'".encode())
        for right in ("publish", "consume"):
            conn.execute("select pgq.grant_queue('orders', %s, %s)", [role, right])
        with pgq.connect(make_conninfo(dsn, user=role, password="guest")) as guest:
            yield guest
        conn.execute(f"drop owned by {role}".encode())
        conn.execute("call pgq.maintain()")
        conn.execute(f"drop role {role}".encode())


def test_a_role_with_rights_publishes_and_consumes(guest: pgq.PooledClient) -> None:
    id = guest.publish("orders", {"n": 1}, dedup_key="k")
    assert guest.publish("orders", {"n": 1}, dedup_key="k") == id
    guest.publish_batch("orders", [2, 3])
    assert (
        guest.publish_many([Draft(topic="orders", payload=4), Draft(topic="orders", payload=5)])
        == 2
    )
    assert len(guest.peek("orders")) == 5
    with guest.claim("orders", n=10) as batch:
        assert len(batch) == 5
    assert [row["event"] for row in guest.history(id)] == ["publish", "claim", "ack"]
    assert [row["queue"] for row in guest.queue_stats()] == ["orders"]
    assert guest.wait_begin("orders", "w", timedelta(seconds=1)) == timedelta(0)
    assert guest.wait_end("orders", "w")


def test_what_a_role_may_not_do_is_refused(guest: pgq.PooledClient) -> None:
    with pytest.raises(pgq.Refused, match='permission denied for queue "secret"') as caught:
        guest.claim("secret")
    assert isinstance(caught.value, psycopg.errors.InsufficientPrivilege)
    with pytest.raises(pgq.Refused, match='Did you mean "orders"') as typed:
        guest.claim("order")
    assert "secret" not in str(typed.value)


def test_a_role_that_may_consume_runs_a_relay(
    guest: pgq.PooledClient, client: pgq.PooledClient
) -> None:
    guest.publish_batch("orders", [1, 2, 3])
    memory = Memory()
    relay = Relay(guest, "orders", memory, batch_size=2, linger=timedelta(seconds=0.1))
    thread = threading.Thread(target=relay.run)
    thread.start()
    while relay.forwarded < 3:
        assert thread.is_alive()
        thread.join(0.01)
    assert [row["queue"] for row in guest.relays()] == ["orders"]
    relay.stop()
    thread.join()
    assert [copy.payload for copy in memory.records] == [1, 2, 3]
    assert client.relays() == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        Relay(guest, "secret", memory, drain=True).run()


def test_a_role_without_the_right_is_refused(
    guest: pgq.PooledClient, client: pgq.PooledClient
) -> None:
    client.publish("secret", 1)
    held = client.claim("secret")
    for refused in (
        lambda: guest.publish("secret", 1),
        lambda: guest.publish_many([Draft(topic="secret", payload=1)]),
        lambda: guest.claim("secret"),
        lambda: guest.peek("secret"),
        lambda: guest.pause("orders"),
        lambda: guest.create_queue("mine"),
        lambda: guest.maintain(),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            refused()
    with pytest.raises(pgq.LeaseLost):
        guest.ack(held.messages[0].lease_id)


@pytest.mark.unpooled("LISTEN needs a session")
def test_only_consumers_can_read_the_name_of_the_channel(
    dsn: str, guest: pgq.PooledClient, client: pgq.PooledClient
) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        guest.channel("secret")
    channel = client.channel("secret")
    assert re.fullmatch("pgq_[0-9a-f]{32}", channel)
    assert channel != client.channel("orders") == guest.channel("orders")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"listen {channel}")
        client.wait_begin("secret", "w", timedelta(seconds=60))
        client.publish("secret", 1)
        heard = [(note.channel, note.payload) for note in conn.notifies(timeout=20, stop_after=1)]
    assert heard == [(channel, "")]  # the notification does not contain the queue's name


@pytest.mark.unpooled("LISTEN needs a session")
def test_the_notification_of_a_consumer_reveals_nothing_to_others(
    guest: pgq.PooledClient, client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    woken = threading.Event()
    hour = timedelta(hours=1)
    asleep = "select from pgq.waiter where armed"
    options = pgq.ConsumerConfig(poll_interval=hour, idle_timeout=hour)
    with pgq.Consumer(guest, "orders", lambda _: woken.set(), options):
        while db.execute(asleep).fetchone() is None:
            time.sleep(0.05)
        time.sleep(0.5)  # it looks once more, and sleeps
        client.publish("orders", 1)
        assert woken.wait(60)


def test_a_consumer_without_the_right_says_so_where_it_is_started(guest: pgq.PooledClient) -> None:
    consumer = pgq.Consumer(guest, "secret", print)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        consumer.start()
    assert isinstance(consumer.error, psycopg.errors.InsufficientPrivilege)


def test_a_role_that_may_only_consume_hears_of_the_dead_too(
    guest: pgq.PooledClient, client: pgq.PooledClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.alter_queue("orders", max_attempts=2, backoff=0)
    id = guest.publish("orders", 1)

    def fail(message: pgq.Message) -> None:
        raise ValueError("spoilt")

    pgq.Consumer(guest, "orders", fail, drain=True).run(signals=False)
    errors = [r.__dict__ for r in caplog.records if r.levelname == "ERROR"]
    told = [(error["event"], error["attempt"]) for error in errors]
    assert told == [("message_failed", 1), ("message_failed", 2), ("message_died", 2)]
    assert guest.dead_letter("orders", id) is not None
