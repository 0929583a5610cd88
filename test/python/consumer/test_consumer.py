"""Consumers on threads: claiming, failing, ending."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, LiteralString

import psycopg
import pytest

import pgq
from harness.paths import ROOT
from harness.server import SETTINGS
from pgq import Message, embedded
from pgq._shared import maintenance, sql
from pgq._sync.source import Source

SHORT = timedelta(milliseconds=100)


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


class Handler:
    """Records the messages that it was called with."""

    def __init__(self, action: Callable[[Message], Any] | None = None) -> None:
        self.seen: list[Any] = []
        self._action = action

    def __call__(self, message: Message) -> None:
        if self._action is not None:
            self._action(message)
        self.seen.append(message.payload)

    def has(self, *payloads: Any) -> Callable[[], bool]:
        return lambda: sorted(self.seen) == sorted(payloads)


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", lane_keys=["type"], backoff=SHORT, max_backoff=SHORT)
    return client


@pytest.fixture
def crashing() -> Iterator[embedded.Server]:
    """A separate server with pgq and a queue, which the test may stop."""
    with embedded.start(extension_dir=ROOT, settings=SETTINGS) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("select pgq.create_queue('orders')")
        yield server


def states(db: psycopg.Connection) -> list[tuple[Any, ...]]:
    return db.execute("select state, attempt from pgq.message_state order by id").fetchall()


# Loops


def test_a_loop_acknowledges_the_messages_before_the_current_one(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", list(range(250)))
    seen = [message.payload for message in orders.consume("orders", drain=True)]
    assert seen == list(range(250))
    assert states(db) == []


def test_a_loop_that_is_left_releases_the_remaining_messages(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    with orders.consume("orders") as messages:
        for message in messages:
            if message.payload == 2:
                break
    assert states(db) == [("ready", 0)]


def test_a_loop_that_fails_refuses_the_message_in_hand(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", [1, 2, 3])

    def fail() -> None:
        with orders.consume("orders") as messages:
            for message in messages:
                if message.payload == 2:
                    raise ValueError("two")

    with pytest.raises(ValueError, match="two"):
        fail()
    assert states(db) == [("retrying", 1), ("ready", 0)]


def test_a_bare_loop_that_is_left_refuses_the_message_in_hand(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    for message in orders.consume("orders"):
        if message.payload == 2:
            break
    assert states(db) == [("retrying", 1), ("ready", 0)]


def test_the_message_in_hand_can_be_ended_otherwise(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", [1, 2, 3, 4])
    with orders.consume("orders", drain=True) as messages:
        for message in messages:
            if message.payload == 1:
                messages.bury(error="no")
            elif message.payload == 2:
                messages.nack(delay=timedelta(hours=1))
            elif message.payload == 3:
                messages.release(delay=timedelta(hours=1))
    assert states(db) == [("dead", 1), ("retrying", 1), ("delayed", 0)]


def test_two_loops_of_one_client_have_different_filters(orders: pgq.PooledClient) -> None:
    for number in range(10):
        orders.publish("orders", number, headers={"type": "odd" if number % 2 else "even"})
    odd = [m.payload for m in orders.consume("orders", {"type": "odd"}, drain=True)]
    even = [m.payload for m in orders.consume("orders", {"type": "even"}, drain=True)]
    assert (odd, even) == ([1, 3, 5, 7, 9], [0, 2, 4, 6, 8])


def test_both_stages_of_a_filter_count(orders: pgq.PooledClient, db: psycopg.Connection) -> None:
    for amount in (500, 1500, 2500):
        for kind in ("gold", "tin"):
            orders.publish("orders", {"amount": amount}, headers={"type": kind})
    asked = []

    def fine(message: Message) -> bool:
        asked.append(message)
        return bool(message.payload["amount"] > 1000)

    found = list(
        orders.consume(
            "orders", {"type": "gold"}, where=fine, drain=True, refused_delay=timedelta(hours=1)
        )
    )
    assert [message.payload["amount"] for message in found] == [1500, 2500]
    assert len(asked) == 3
    assert sorted(states(db)) == [("delayed", 0), ("ready", 0), ("ready", 0), ("ready", 0)]


# Handlers


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_consumer_handles_the_backlog_and_new_messages(
    orders: pgq.PooledClient, db: psycopg.Connection, concurrency: int
) -> None:
    orders.publish_batch("orders", list(range(100)))
    handler = Handler()
    with pgq.Consumer(orders, "orders", handler, concurrency=concurrency) as consumer:
        wait_for(lambda: len(handler.seen) == 100)
        time.sleep(0.3)
        orders.publish("orders", 100)
        wait_for(lambda: len(handler.seen) == 101)
    assert sorted(handler.seen) == list(range(101))
    assert (consumer.handled, consumer.failed) == (101, 0)
    assert states(db) == []
    assert db.execute("select count(*) from pgq.waiter").fetchone() == (0,)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_handler_that_raises_affects_no_other_message(
    orders: pgq.PooledClient,
    db: psycopg.Connection,
    concurrency: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders.publish_batch("orders", ["a", "bad", "c", "worse", "later"])
    tried: list[str] = []

    def act(message: Message) -> None:
        tried.append(message.payload)
        if message.payload == "bad":
            raise ValueError("spoilt")
        if message.payload == "worse":
            raise pgq.Reject("hopeless")
        if message.payload == "later" and message.attempt == 1:
            raise pgq.Retry(delay=timedelta(0))

    handler = Handler(act)
    with pgq.Consumer(orders, "orders", handler, concurrency=concurrency):
        wait_for(lambda: tried.count("bad") == 3 and tried.count("later") == 2)
    assert "failed with message" in caplog.text
    assert sorted(handler.seen) == ["a", "c", "later"]
    rows = db.execute("select payload, reason, error, attempts from pgq.dead_letter").fetchall()
    assert sorted(rows) == [
        ("bad", "processing_error", "ValueError: spoilt", 3),
        ("worse", "rejected", "hopeless", 1),
    ]
    details = db.execute("select details from pgq.dead_letter where payload = '\"bad\"'").fetchone()
    assert details is not None
    assert "spoilt" in details[0]["traceback"]


def test_handlers_run_side_by_side_up_to_the_limit(orders: pgq.PooledClient) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def act(message: Message) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    orders.publish_batch("orders", list(range(40)))
    handler = Handler(act)
    with pgq.Consumer(orders, "orders", handler, concurrency=4, batch_size=10):
        wait_for(lambda: len(handler.seen) == 40)
    assert most == 4


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_lease_is_renewed_while_a_handler_runs(
    orders: pgq.PooledClient, db: psycopg.Connection, concurrency: int
) -> None:
    orders.publish("orders", 1)
    over = threading.Event()
    handler = Handler(lambda message: over.wait(30))
    options: dict[str, Any] = {"concurrency": concurrency, "lease": timedelta(seconds=1)}
    outlived = "select from pgq.lease where pgq.now() > claimed_at + interval '1.1 s'"
    with pgq.Consumer(orders, "orders", handler, **options):
        wait_for(lambda: db.execute(outlived).fetchone() is not None)
        assert not orders.claim("orders")
        over.set()
        wait_for(handler.has(1))
    assert states(db) == []
    events = db.execute("select event from pgq.journal").fetchall()
    assert events == [("ack",)]


def test_a_stale_lease_is_logged_and_changes_nothing(
    orders: pgq.PooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    orders.publish("orders", 1)

    def act(message: Message) -> None:
        if not handler.seen:
            orders.release(message.lease_id)

    handler = Handler(act)
    with pgq.Consumer(orders, "orders", handler):
        wait_for(handler.has(1, 1))
    assert "delivered again" in caplog.text


# The ack that comes with the next claim


class Wire:
    """Records the statements that a client sends, and can cut one off."""

    def __init__(self, client: pgq.PooledClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        self.cut: str | None = None
        self._once = client._once
        monkeypatch.setattr(client, "_once", self)

    def __call__(self, statement: LiteralString, parameters: Any, factory: Any) -> list[Any]:
        self.sent.append("claim" if statement is sql.CLAIM else statement.split("(")[0].strip())
        cut = None
        if statement is sql.CLAIM and parameters[-1] is not None:
            cut, self.cut = self.cut, None
        if cut == "before":
            raise psycopg.OperationalError("the connection is lost")
        rows = self._once(statement, parameters, factory)
        if cut == "after":
            raise psycopg.OperationalError("the connection is lost")
        return rows

    def count(self, name: str) -> int:
        return self.sent.count(name)


@pytest.fixture
def wire(orders: pgq.PooledClient, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(orders, monkeypatch)


def drain(way: str, client: pgq.PooledClient, act: Callable[[Message], Any], **options: Any) -> int:
    """Let a consumer or a loop handle all messages; return how many."""
    options = {"batch_size": 10, "drain": True} | options
    if way == "handler":
        consumer = pgq.Consumer(client, "orders", act, **options)
        consumer.run()
        return consumer.handled
    count = 0
    with client.consume("orders", **options) as messages:
        for message in messages:
            act(message)
            count += 1
    return count


each_way = pytest.mark.parametrize("way", ["handler", "loop"])


@each_way
def test_a_batch_that_is_done_costs_one_call(
    orders: pgq.PooledClient, db: psycopg.Connection, wire: Wire, way: str
) -> None:
    orders.publish_batch("orders", list(range(30)))
    wire.sent.clear()
    seen = Handler()
    assert drain(way, orders, seen) == 30
    assert seen.seen == list(range(30))
    assert wire.count("claim") == 4  # the last one finds nothing
    assert wire.sent[1:-1] == ["claim"] * 4
    assert wire.sent[-1].startswith("select id, era, topic"), "a look at what is left"
    assert states(db) == []


@each_way
def test_a_waiting_consumer_has_acknowledged_its_work(
    orders: pgq.PooledClient, db: psycopg.Connection, wire: Wire, way: str
) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    if way == "handler":
        with pgq.Consumer(orders, "orders", Handler()):
            wait_for(lambda: states(db) == [])
    else:
        messages = orders.consume("orders")
        looping = threading.Thread(target=lambda: list(messages))
        looping.start()
        wait_for(lambda: states(db) == [])
        messages.stop()
        looping.join()
    assert "select pgq.ack" not in wire.sent


@each_way
def test_a_consumer_that_stops_after_a_whole_batch_acknowledges_it(
    orders: pgq.PooledClient, db: psycopg.Connection, wire: Wire, way: str
) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    claims = []

    def stop(source: Source, **options: Any) -> pgq.Batch | None:
        if options["done"] is not None:
            source.stop()
        claims.append(options["done"])
        return fetch(source, **options)

    fetch = Source.fetch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "fetch", stop)
        assert drain(way, orders, Handler(), batch_size=2) == 2
    assert wire.count("claim") == 1
    assert wire.count("select pgq.ack") == 1
    assert states(db) == [("ready", 0)]


@each_way
@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_claim_that_is_cut_off_loses_no_message_and_no_ack(
    orders: pgq.PooledClient, db: psycopg.Connection, wire: Wire, way: str, cut: str
) -> None:
    orders.publish_batch("orders", list(range(6)))
    wire.cut = cut
    seen = Handler()
    drain(way, orders, seen, batch_size=2, lease=timedelta(minutes=1))
    if cut == "after":  # what that claim has taken comes back when its lease ends
        assert seen.seen == [0, 1, 4, 5]
        db.execute(
            "update pgq.lease set until = pgq.now(), lease_id = pgq._lease_second(pgq.now())"
        )
        drain(way, orders, seen)
    assert sorted(seen.seen) == list(range(6))
    assert wire.count("select pgq.ack") == 1
    assert states(db) == []


@each_way
def test_a_lease_that_ends_before_the_next_claim_is_logged_once(
    orders: pgq.PooledClient,
    db: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
    way: str,
) -> None:
    orders.publish_batch("orders", list(range(6)))
    seen = Handler(lambda message: len(seen.seen) == 3 and orders.release(message.lease_id))
    drain(way, orders, seen, batch_size=2)
    assert sorted(seen.seen) == [0, 1, 2, 2, 3, 3, 4, 5]
    events = [getattr(record, "event", None) for record in caplog.records]
    assert events.count("messages_redelivered") == 1
    assert states(db) == []


@each_way
def test_a_batch_in_which_a_message_has_failed_acknowledges_the_others(
    orders: pgq.PooledClient, db: psycopg.Connection, wire: Wire, way: str
) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    if way == "handler":
        drain(way, orders, Handler(lambda message: message.payload == 2 and 1 // 0), batch_size=3)
    else:
        with orders.consume("orders", batch_size=3, drain=True) as messages:
            for message in messages:
                if message.payload == 2:
                    messages.nack(delay=timedelta(hours=1))
    assert [state for state, _ in states(db)] == ["retrying"]
    assert wire.count("select pgq.ack") == 0


def test_a_queue_that_is_dropped_meanwhile_ends_its_consumer(
    orders: pgq.PooledClient, caplog: pytest.LogCaptureFixture
) -> None:
    orders.publish("orders", 1)
    act = Handler(lambda message: orders.drop_queue("orders", force=True))
    with pytest.raises(pgq.QueueNotFound):
        drain("handler", orders, act)
    assert "delivered again" in caplog.text  # nobody will, but the ack has not been taken


# Several


def test_many_consumers_share_a_queue(orders: pgq.PooledClient, dsn: str) -> None:
    handlers = [Handler() for _ in range(4)]
    clients = [pgq.connect(dsn) for _ in handlers]
    consumers = [
        pgq.Consumer(client, "orders", handler, batch_size=5).start()
        for client, handler in zip(clients, handlers, strict=True)
    ]
    time.sleep(0.2)
    for number in range(50):
        orders.publish("orders", number)
    wait_for(lambda: sum(len(handler.seen) for handler in handlers) >= 50)
    for consumer, client in zip(consumers, clients, strict=True):
        consumer.close()
        client.close()
    assert sorted(n for handler in handlers for n in handler.seen) == list(range(50))


@pytest.mark.parametrize(
    ("soon", "late", "options", "sizes"),
    [
        (1e9, 2e9, {}, [100, 200, 400, 800, 1000, 1000]),
        (-2.0, -1.0, {}, [100, 50, 25, 12, 6, 3]),
        (-2.0, -1.0, {"concurrency": 30}, [100, 50, 30, 30, 30, 30]),
        (1e9, 2e9, {"batch_size": 7}, [7] * 6),
    ],
    ids=["fast", "slow", "slow and side by side", "told"],
)
def test_the_batch_size_adapts_to_the_handler(
    orders: pgq.PooledClient,
    monkeypatch: pytest.MonkeyPatch,
    soon: float,
    late: float,
    options: dict[str, Any],
    sizes: list[int],
) -> None:
    monkeypatch.setattr("pgq._sync.source._SOON", soon)
    monkeypatch.setattr("pgq._sync.source._LATE", late)
    orders.publish_batch("orders", list(range(sum(sizes))))
    source = Source(orders, "orders", pgq.ConsumerConfig(**options))
    found = []
    for _ in sizes:
        batch = source.fetch()
        assert batch is not None
        found.append(len(batch))
        batch.ack()
    source.close()
    assert found == sizes


def test_a_consumer_of_a_queue_that_is_not_there_says_so(client: pgq.PooledClient) -> None:
    with pytest.raises(pgq.QueueNotFound):
        pgq.Consumer(client, "nowhere", Handler()).run()


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": 1_000_001},
        {"concurrency": 0},
        {"poll_interval": timedelta(0)},
        {"lease": timedelta(0)},
        {"grace": timedelta(seconds=-1)},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        pgq.ConsumerConfig(**options)


# Waking


def falling_asleep(consumer: pgq.Consumer) -> threading.Event:
    """Set when the consumer has made its last claim and waits for a notification."""
    source = consumer._source
    asleep, wait = threading.Event(), source._woken.wait

    def sleep(timeout: float | None = None) -> bool:
        if source._registered:
            asleep.set()
        return wait(timeout)

    source._woken.wait = sleep  # type: ignore[method-assign]
    return asleep


@pytest.mark.unpooled("LISTEN needs a session")
@pytest.mark.parametrize("document", [None, {"type": "paid"}])
def test_an_idle_consumer_sends_nothing_and_is_woken(
    orders: pgq.PooledClient, db: psycopg.Connection, document: dict[str, Any] | None
) -> None:
    took: list[float] = []
    handler = Handler(lambda message: took.append(time.time() - message.payload))
    hour = timedelta(hours=1)
    options: dict[str, Any] = {"filter": document, "poll_interval": hour, "idle_timeout": hour}
    consumer = pgq.Consumer(orders, "orders", handler, **options)
    asleep = falling_asleep(consumer)
    with consumer:
        for _ in range(3):  # a busy machine may be late, but not each time
            assert asleep.wait(30)
            (since,) = db.execute("select clock_timestamp()").fetchone() or ()
            time.sleep(0.4)
            asked = db.execute(
                "select query from pg_stat_activity where application_name = 'pgq'"
                " and datname = current_database() and query_start > %s",
                [since],
            ).fetchall()
            assert asked == []
            asleep.clear()
            orders.publish("orders", time.time(), headers={"type": "paid"})
            wait_for(lambda: took, 5)
            if (late := took.pop()) < 0.5:
                break
    assert late < 0.5


@pytest.mark.unpooled("LISTEN needs a session")
@pytest.mark.parametrize(("idle", "comes"), [(0.3, True), (60.0, False)])
def test_a_notification_that_is_lost_is_made_up_for_by_looking(
    orders: pgq.PooledClient, idle: float, comes: bool
) -> None:
    handler = Handler()
    consumer = pgq.Consumer(orders, "orders", handler, idle_timeout=timedelta(seconds=idle))
    source, asleep = consumer._source, falling_asleep(consumer)
    with consumer:
        assert asleep.wait(30)
        orders.listener.leave(orders.channel("orders"), source._woken)  # it is deaf from now on
        orders.publish("orders", 1)
        if comes:
            wait_for(handler.has(1))
        else:
            time.sleep(1)
            assert handler.seen == []  # so it was nothing else that has woken the other


@pytest.mark.unpooled("LISTEN needs a session")
def test_consumers_of_one_client_share_the_connection_that_listens(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.create_queue("bills")
    first, second = Handler(), Handler()
    with pgq.Consumer(orders, "orders", first), pgq.Consumer(orders, "bills", second):
        wait_for(lambda: all(map(orders.listener.hears, map(orders.channel, ("orders", "bills")))))
        listening = db.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and query like 'listen %'"
        ).fetchone()
        assert listening == (1,)
        orders.publish("orders", 1)
        orders.publish("bills", 2)
        wait_for(first.has(1))
        wait_for(second.has(2))


@pytest.mark.unpooled("LISTEN needs a session")
def test_channels_are_listened_to_as_consumers_come_and_go(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.create_queue("bills")
    hour = timedelta(hours=1)
    options: dict[str, Any] = {"poll_interval": hour, "idle_timeout": hour}
    hears, own, other = orders.listener.hears, orders.channel("orders"), orders.channel("bills")
    first, second = Handler(), Handler()
    asked = "select from pg_stat_activity where query = %s and state = 'idle'"
    with pgq.Consumer(orders, "orders", first, **options):
        wait_for(lambda: hears(own))
        assert not hears(other)
        for number in (1, 2):
            # It comes while the connection waits for notifications.
            consumer = pgq.Consumer(orders, "bills", second, **options)
            asleep = falling_asleep(consumer)
            with consumer:
                assert asleep.wait(30)
                orders.publish("bills", number)
                wait_for(second.has(*range(1, number + 1)))
            # The consumer no longer waits for the channel, whatever notification arrives next.
            db.execute("select pg_notify(%s, '')", [own])
            wait_for(lambda: db.execute(asked, [f'unlisten "{other}"']).fetchone() is not None)
            assert not hears(other)
        orders.publish("orders", 1)
        wait_for(first.has(1))


@pytest.mark.unpooled("LISTEN needs a session")
def test_a_queue_that_is_created_again_has_another_channel(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    handler, old = Handler(), orders.channel("orders")
    options: dict[str, Any] = {
        "poll_interval": timedelta(hours=1),
        "idle_timeout": timedelta(seconds=0.3),
    }
    with pgq.Consumer(orders, "orders", handler, **options):
        wait_for(lambda: orders.listener.hears(old))
        with db.transaction():
            db.execute("select pgq.drop_queue('orders')")
            db.execute("select pgq.create_queue('orders')")
        new = orders.channel("orders")
        assert new != old
        wait_for(lambda: orders.listener.hears(new))
        orders.publish("orders", 1)
        wait_for(handler.has(1))


def test_a_consumer_without_notifications_polls(orders: pgq.PooledClient) -> None:
    handler = Handler()
    options: dict[str, Any] = {"notifications": False, "poll_interval": timedelta(milliseconds=50)}
    with pgq.Consumer(orders, "orders", handler, **options):
        time.sleep(0.2)
        orders.publish("orders", 1)
        wait_for(handler.has(1), 5)


def test_a_retry_is_taken_when_it_is_due_and_not_at_the_next_poll(
    orders: pgq.PooledClient,
) -> None:
    handler = Handler()
    with pgq.Consumer(orders, "orders", handler, poll_interval=timedelta(hours=1)):
        time.sleep(0.2)
        orders.publish("orders", 1, delay=timedelta(milliseconds=300))
        wait_for(handler.has(1), 5)


@pytest.mark.unpooled("LISTEN needs a session")
def test_a_listener_whose_backend_is_killed_misses_nothing(
    orders: pgq.PooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    handler, channel = Handler(), orders.channel("orders")
    with pgq.Consumer(orders, "orders", handler):
        wait_for(lambda: orders.listener.hears(channel))
        killed = db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and query like 'listen %'"
        ).fetchall()
        assert killed == [(True,)]
        orders.publish("orders", 1)
        wait_for(handler.has(1), 10)
        wait_for(lambda: orders.listener.hears(channel))
        orders.publish("orders", 2)
        wait_for(handler.has(1, 2), 10)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_consumer_survives_a_restart_of_the_server(
    crashing: embedded.Server, mode: embedded.StopMode, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Handler()
    with pgq.connect(crashing.dsn()) as client, pgq.Consumer(client, "orders", handler):
        client.publish("orders", 1)
        wait_for(handler.has(1))
        crashing.restart(mode)
        with psycopg.connect(crashing.dsn(), autocommit=True) as conn:
            conn.execute("select pgq.publish('orders', '2')")
        wait_for(lambda: 2 in handler.seen)
        wait_for(lambda: client.listener.hears(client.channel("orders")))
        client.publish("orders", 3)
        wait_for(lambda: 3 in handler.seen)


def test_a_pooler_that_swallows_notifications_is_found_out(
    orders: pgq.PooledClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # A pooler accepts LISTEN in a session that another client uses afterwards.
    monkeypatch.setattr("pgq._shared.sql.LISTEN", "select 1")
    monkeypatch.setattr("pgq._sync.listener._PROOF_SECONDS", 0.3)
    handler = Handler()
    with pgq.Consumer(orders, "orders", handler, poll_interval=timedelta(milliseconds=50)):
        wait_for(lambda: orders.listener.impossible)
        orders.publish("orders", 1)
        wait_for(handler.has(1), 5)
    assert "polling instead" in caplog.text


def test_a_database_that_refuses_to_be_listened_to_is_polled(
    orders: pgq.PooledClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pgq._shared.sql.LISTEN", "do $$ begin raise feature_not_supported; end $$")
    handler = Handler()
    with pgq.Consumer(orders, "orders", handler, poll_interval=timedelta(milliseconds=50)):
        wait_for(lambda: orders.listener.impossible)
        orders.publish("orders", 1)
        wait_for(handler.has(1), 5)
    assert "polling instead" in caplog.text


def test_a_paused_queue_is_not_asked_all_the_time(orders: pgq.PooledClient) -> None:
    orders.publish("orders", 1, delay=timedelta(milliseconds=1))
    orders.pause("orders")
    calls = 0
    claim = orders.claim

    def counted(*arguments: Any, **options: Any) -> pgq.Batch:
        nonlocal calls
        calls += 1
        return claim(*arguments, **options)

    orders.claim = counted  # type: ignore[method-assign]
    handler = Handler()
    with pgq.Consumer(orders, "orders", handler):
        time.sleep(1)
        assert calls < 20
        orders.resume("orders")
        wait_for(handler.has(1), 5)


# Ending


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_consumer_that_stops_finishes_and_gives_back_the_rest(
    orders: pgq.PooledClient, db: psycopg.Connection, concurrency: int
) -> None:
    orders.publish_batch("orders", list(range(20)))
    begun, over = threading.Semaphore(0), threading.Event()

    def act(message: Message) -> None:
        begun.release()
        over.wait(30)

    handler = Handler(act)
    with pgq.Consumer(orders, "orders", handler, concurrency=concurrency) as consumer:
        for _ in range(concurrency):
            assert begun.acquire(timeout=30)
        consumer.stop()
        over.set()
    assert len(handler.seen) == concurrency
    assert states(db) == [("ready", 0)] * (20 - concurrency)


def test_a_handler_that_takes_longer_than_the_grace_loses_its_message(
    orders: pgq.PooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    orders.publish("orders", 1)
    begun, over = threading.Event(), threading.Event()

    def act(message: Message) -> None:
        begun.set()
        over.wait()

    with pgq.Consumer(orders, "orders", act, grace=SHORT):
        begun.wait()
    assert states(db) == [("ready", 0)]
    over.set()
    assert "will be delivered again" in caplog.text


CHILD = """
import sys, time
import pgq

def handle(message):
    print("began", message.payload, flush=True)
    time.sleep(0.5)
    print("ended", message.payload, flush=True)

with pgq.connect(sys.argv[1]) as client:
    pgq.Consumer(client, "orders", handle, concurrency=int(sys.argv[2])).run()
print("bye", flush=True)
"""


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_process_that_gets_sigterm_loses_nothing(
    orders: pgq.PooledClient, db: psycopg.Connection, dsn: str, concurrency: int
) -> None:
    orders.publish_batch("orders", list(range(10)))
    child = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", CHILD, dsn, str(concurrency)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline().startswith("began")
    child.send_signal(signal.SIGTERM)
    rest = child.stdout.read()
    assert child.wait(20) == 0
    child.stdout.close()
    assert rest.endswith("bye\n")
    ended = rest.count("ended")
    assert 1 <= ended <= concurrency
    assert states(db) == [("ready", 0)] * (10 - ended)


@pytest.mark.unpooled("the pooler keeps its sessions")
def test_a_closed_client_leaves_no_connection_behind(
    dsn: str, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    count = (
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and application_name = 'other'"
    )
    client = pgq.connect(dsn, application_name="other")
    with client, pgq.Consumer(client, "orders", Handler()):
        wait_for(lambda: client.listener.hears(client.channel("orders")))
    wait_for(lambda: db.execute(count).fetchone() == (0,))


# Upkeep


@pytest.mark.parametrize("idle", [False, True])
def test_one_consumer_of_a_process_does_the_upkeep(
    orders: pgq.PooledClient, monkeypatch: pytest.MonkeyPatch, idle: bool
) -> None:
    calls = []
    monkeypatch.setattr(orders, "maintain", lambda: calls.append(1))
    monkeypatch.setattr("pgq._sync.source._LONGEST_TICK", 0.05)
    monkeypatch.setattr(maintenance, "EVERY_SECONDS", 0.5)
    if not idle:
        orders.publish_batch("orders", [1, 2])
    handler = Handler()
    began = time.monotonic()
    with pgq.Consumer(orders, "orders", handler), pgq.Consumer(orders, "orders", handler):
        wait_for(lambda: len(calls) >= 2)
        time.sleep(0.3)
    # One immediately, and then one each half second, however long that took.
    assert 2 <= len(calls) <= 1 + (time.monotonic() - began) / 0.5


# Draining


def test_draining_does_not_end_while_rows_are_locked(orders: pgq.PooledClient, dsn: str) -> None:
    orders.publish_batch("orders", list(range(10)))
    with psycopg.connect(dsn) as other:
        other.execute("select from pgq.ready for update")
        timer = threading.Timer(0.6, other.rollback)  # longer than a claim waits by itself
        timer.start()
        seen = [message.payload for message in orders.consume("orders", drain=True)]
        timer.join()
    assert seen == list(range(10))


def test_draining_a_paused_queue_ends(orders: pgq.PooledClient, db: psycopg.Connection) -> None:
    orders.publish("orders", 1)
    orders.pause("orders")
    assert list(orders.consume("orders", drain=True)) == []
    assert states(db) == [("ready", 0)]
