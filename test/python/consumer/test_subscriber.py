"""Subscribers: objects that are called with the messages of topics."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import pgq
from pgq import ConsumerConfig, Message, SubscriptionManager


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


class Ear:
    """A subscriber that records its messages."""

    def __init__(self, subscriber_id: str, fail: bool = False) -> None:
        self.subscriber_id = subscriber_id
        self.heard: list[Any] = []
        self._fail = fail

    def on_message(self, message: Message) -> None:
        if self._fail:
            raise ValueError("deaf")
        self.heard.append(message.payload)


def test_subscribing_says_whether_it_was_new(client: pgq.PooledClient) -> None:
    ear = Ear("ear")
    with SubscriptionManager(client) as manager:
        assert manager.subscribe("a.*", ear)
        assert not manager.subscribe("a.*", ear)
        assert manager.subscribe("b.#", ear)
        assert manager.subscribers == ["ear"]
        assert manager.unsubscribe("a.*", "ear")
        assert not manager.unsubscribe("a.*", "ear")
        assert not manager.unsubscribe("a.*", "nobody")
        assert manager.unsubscribe_all("ear") == 1
        assert manager.unsubscribe_all("ear") == 0
        assert manager.subscribers == []


def test_subscribers_get_each_matching_message_once_from_any_publisher(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    all_orders, new_ones, rich = Ear("all"), Ear("new"), Ear("rich")
    with SubscriptionManager(client) as manager:
        manager.subscribe("orders.#", all_orders)
        manager.subscribe("orders.*.new", all_orders)
        manager.subscribe("*.eu.new", new_ones)
        manager.subscribe("orders.#", rich, pgq.F.payload.amount > 100)
        client.publish("orders.eu.new", {"amount": 50})
        db.execute(
            "insert into pgq.message (topic, payload) values ('orders', '{\"amount\": 200}')"
        )
        with db.cursor().copy("copy pgq.message (topic, payload) from stdin") as copy:
            copy.write_row(("orders.us.new", '{"amount": 300}'))
        wait_for(lambda: len(all_orders.heard) == 3 and len(rich.heard) == 2 and new_ones.heard)
        time.sleep(0.1)
    assert sorted(heard["amount"] for heard in all_orders.heard) == [50, 200, 300]
    assert new_ones.heard == [{"amount": 50}]
    assert sorted(heard["amount"] for heard in rich.heard) == [200, 300]


def test_a_message_that_ends_before_it_is_claimed_calls_no_subscriber(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    ear = Ear("ear")
    with SubscriptionManager(client) as manager:
        manager.subscribe("news", ear)
        client.publish("news", "first")
        wait_for(lambda: ear.heard)
        client.pause("ear")
        client.publish("news", "gone", expires_in=timedelta(milliseconds=1))
        client.publish("news", "last")
        time.sleep(0.1)
        client.resume("ear")
        wait_for(lambda: len(ear.heard) > 1)
    assert ear.heard == ["first", "last"]
    assert db.execute("select reason from pgq.dead_letter").fetchall() == [("expired",)]


def test_a_subscriber_that_raises_disturbs_no_other(client: pgq.PooledClient) -> None:
    ears = [Ear("first"), Ear("middle", fail=True), Ear("last")]
    with SubscriptionManager(client) as manager:
        for ear in ears:
            manager.subscribe("news", ear)
        client.publish("news", 1)
        client.publish("news", 2)
        wait_for(lambda: ears[0].heard == ears[2].heard == [1, 2])
    assert ears[1].heard == []


def test_a_slow_subscriber_delays_no_publisher(client: pgq.PooledClient) -> None:
    over = threading.Event()

    class Slow(Ear):
        def on_message(self, message: Message) -> None:
            over.wait()

    with SubscriptionManager(client) as manager:
        manager.subscribe("news", Slow("slow"))
        began = time.monotonic()
        for number in range(5):
            client.publish("news", number)
        assert time.monotonic() - began < 2
        over.set()


@pytest.mark.unpooled("LISTEN needs a session")
def test_all_subscribers_share_one_listening_connection(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    with SubscriptionManager(client, durable=False) as manager:
        for number in range(5):
            manager.subscribe("news", Ear(f"ear{number}"))
        wait_for(lambda: all(map(client.listener.hears, map(client.channel, client.queue_names()))))
        listening = db.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and query like 'listen %'"
        ).fetchone()
        assert listening == (1,)
    assert db.execute("select count(*) from pgq.queue").fetchone() == (0,)


def test_messages_published_without_a_listener_are_delivered_later(
    client: pgq.PooledClient,
) -> None:
    ear = Ear("ear")
    with SubscriptionManager(client) as manager:
        manager.subscribe("news", ear)
    client.publish("news", 1)
    with SubscriptionManager(client, ConsumerConfig(poll_interval=timedelta(seconds=9))) as manager:
        assert not manager.subscribe("news", ear)
        wait_for(lambda: ear.heard == [1])


def test_the_subscribers_of_two_clients_are_independent(client: pgq.PooledClient, dsn: str) -> None:
    mine, yours = Ear("mine"), Ear("yours")
    with pgq.connect(dsn) as other, SubscriptionManager(other) as theirs:
        with SubscriptionManager(client) as ours:
            ours.subscribe("news", mine)
            theirs.subscribe("news", yours)
            assert (ours.subscribers, theirs.subscribers) == (["mine"], ["yours"])
            client.publish("news", 1)
            wait_for(lambda: mine.heard == yours.heard == [1])
        other.publish("news", 2)  # one has left, and the other is told all the same
        wait_for(lambda: yours.heard == [1, 2])
    assert mine.heard == [1]


def test_subscriptions_are_changed_from_many_threads(client: pgq.PooledClient) -> None:
    with SubscriptionManager(client) as manager:

        def work(number: int) -> None:
            ear = Ear(f"ear{number % 3}")
            for _ in range(3):
                manager.subscribe(f"topic{number}", ear)
                manager.unsubscribe(f"topic{number}", ear.subscriber_id)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [manager.unsubscribe_all(f"ear{number}") for number in range(3)] == [0, 0, 0]


def test_a_question_is_answered(client: pgq.PooledClient, db: psycopg.Connection) -> None:
    client.create_queue("sum")

    def answer(message: Message) -> None:
        client.reply(message, sum(message.payload), sender="calculator")

    with pgq.Consumer(client, "sum", answer):
        for numbers in ([1, 2], [3, 4]):
            reply = client.request("sum", numbers, timeout=timedelta(seconds=10), sender="me")
            assert (reply.payload, reply.sender) == (sum(numbers), "calculator")
    with pytest.raises(pgq.RequestTimeout, match="sum"):
        client.request("sum", [5], timeout=timedelta(milliseconds=200))
    client.close()
    assert db.execute("select name from pgq.queue").fetchall() == [("sum",)]


# One id


def subscriptions(db: psycopg.Connection) -> list[tuple[Any, ...]]:
    return db.execute(
        "select subscriber, pattern, filter from pgq.subscription order by 1, 2"
    ).fetchall()


def queues(db: psycopg.Connection) -> list[Any]:
    return [name for (name,) in db.execute("select name from pgq.queue order by name")]


def test_two_objects_with_one_id_each_get_their_own_patterns(
    client: pgq.PooledClient,
) -> None:
    first, second, rich = Ear("ear"), Ear("ear"), Ear("ear")
    with SubscriptionManager(client) as manager:
        assert manager.subscribe("d1.*", first)
        assert manager.subscribe("d2.*", second)
        assert manager.subscribe("d2.#", rich, pgq.F.rich == True)  # noqa: E712
        client.publish("d1.x", 1)
        client.publish("d2.x", 2, headers={"rich": True})
        client.publish("d2.y", 0)
        wait_for(lambda: (len(first.heard), len(second.heard), len(rich.heard)) == (1, 2, 1))
        assert (first.heard, sorted(second.heard), rich.heard) == ([1], [0, 2], [2])
        assert manager.unsubscribe("d2.*", "ear")
        client.publish("d2.z", 3, headers={"rich": True})
        wait_for(lambda: rich.heard == [2, 3])
        assert manager.subscribers == ["ear"]
    assert sorted(second.heard) == [0, 2]


def test_another_object_takes_the_place_of_the_first_for_the_same_pattern(
    client: pgq.PooledClient,
) -> None:
    first, second = Ear("ear"), Ear("ear")
    with SubscriptionManager(client) as manager:
        assert manager.subscribe("news", first)
        assert not manager.subscribe("news", second)
        client.publish("news", 1)
        wait_for(lambda: second.heard == [1])
    assert first.heard == []


def test_a_changed_filter_is_followed(
    client: pgq.PooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear("ear")
    with caplog.at_level("INFO", "pgq"):
        with SubscriptionManager(client) as manager:
            assert manager.subscribe("news", ear, {"kind": "sport"})
        with SubscriptionManager(client) as manager:
            assert not manager.subscribe("news", ear, {"kind": "sport"})
            assert not manager.subscribe("news", ear, pgq.F.kind == "art")
            client.publish("news", 1, headers={"kind": "sport"})
            client.publish("news", 2, headers={"kind": "art"})
            wait_for(lambda: ear.heard == [2])
            assert not manager.subscribe("news", ear)
    assert subscriptions(db) == [("ear", "news", None)]
    told = [record.__dict__["event"] for record in caplog.records]
    assert told.count("subscription_changed") == 2


def test_a_filter_that_only_the_database_can_evaluate_works(client: pgq.PooledClient) -> None:
    ear = Ear("ear")
    with SubscriptionManager(client) as manager:
        assert manager.subscribe("news", ear, pgq.F.kind.regex(r"\mart\M"))
        with pytest.raises(pgq.InvalidFilter):
            manager.subscribe("news", ear, {"kind": {"$near": 1}})
        client.publish("news", 1, headers={"kind": "modern art"})
        wait_for(lambda: ear.heard == [1])


def test_two_processes_with_one_id_share_a_durable_subscription(
    client: pgq.PooledClient, dsn: str
) -> None:
    mine, yours = Ear("ear"), Ear("ear")
    with pgq.connect(dsn) as other, SubscriptionManager(other) as theirs:
        with SubscriptionManager(client) as ours:
            ours.subscribe("news", mine)
            theirs.subscribe("news", yours)
            for number in range(20):
                client.publish("news", number)
            wait_for(lambda: len(mine.heard) + len(yours.heard) == 20)
        client.publish("news", 20)
        wait_for(lambda: 20 in yours.heard)
    assert sorted(mine.heard + yours.heard) == list(range(21))


# Without durability


def test_two_processes_with_one_id_that_is_not_durable_are_independent(
    client: pgq.PooledClient, dsn: str, db: psycopg.Connection
) -> None:
    mine, yours = Ear("ear"), Ear("ear")
    with pgq.connect(dsn) as other, SubscriptionManager(other, durable=False) as theirs:
        with SubscriptionManager(client, durable=False) as ours:
            assert ours.subscribe("news", mine)
            assert theirs.subscribe("news", yours)
            client.publish("news", 1)
            wait_for(lambda: mine.heard == yours.heard == [1])
        client.publish("news", 2)
        wait_for(lambda: yours.heard == [1, 2])
    assert mine.heard == [1]
    assert queues(db) == []


def test_what_is_not_durable_leaves_nothing_behind(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    with SubscriptionManager(client, durable=False) as manager:
        manager.subscribe("news", Ear("first"))
        manager.subscribe("news", Ear("second"))
        manager.subscribe("news", Ear("third"))
        manager.unsubscribe_all("first")
        manager.unsubscribe("news", "second")
        assert manager.subscribers == ["third"]
        assert len(queues(db)) == 1
        with pytest.raises(TypeError, match="on_message"):
            manager.subscribe("news", object())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="pattern, subscriber"):
            manager.subscribe(Ear("ear"), "news")  # type: ignore[arg-type]
        assert len(queues(db)) == 1
    assert queues(db) == []


KILLED = """
import os, sys, pgq

class Ear:
    subscriber_id = "ear"

    def on_message(self, message):
        pass

client = pgq.connect(sys.argv[1])
pgq.SubscriptionManager(client, durable=False).subscribe("news", Ear())
os.kill(os.getpid(), 9)
"""


def test_the_queue_of_a_killed_process_is_dropped(
    client: pgq.PooledClient, dsn: str, db: psycopg.Connection
) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, dsn], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = queues(db)
    client.publish("news", 1)
    with SubscriptionManager(client, durable=False) as manager:
        manager.subscribe("news", Ear("ear"))
        client.maintain()
        assert left in queues(db)  # nobody knows yet that the process is dead
        db.execute(  # after a minute
            "update pgq.stream s set until = now() - interval '1 s' from pgq.queue q"
            " where q.queue_id = s.queue_id and q.name = %s",
            [left],
        )
        # The manager's own consumer may run maintenance at the same time: then this call does
        # nothing.
        deadline = time.monotonic() + 60
        while left in queues(db):
            assert time.monotonic() < deadline, "it is not dropped"
            client.maintain()
        assert len(queues(db)) == 1  # that of a living process
    assert queues(db) == []
    assert db.execute("select count(*) from pgq.ready").fetchone() == (0,)


# Logs


def test_the_begin_and_end_of_subscriptions_are_logged(
    client: pgq.PooledClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "pgq"), SubscriptionManager(client) as manager:
        manager.subscribe("a.*", Ear("ear"))
        manager.subscribe("b", Ear("ear"))
        manager.unsubscribe("a.*", "ear")
        manager.unsubscribe_all("ear")
    told = [
        (record.__dict__["event"], record.__dict__["subscriber"], record.__dict__["pattern"])
        for record in caplog.records
        if record.__dict__["event"].startswith("subscription")
    ]
    assert told == [
        ("subscription_added", "ear", "a.*"),
        ("subscription_added", "ear", "b"),
        ("subscription_removed", "ear", "a.*"),
        ("subscription_removed", "ear", None),
    ]


def test_an_archive_delivers_to_no_subscriber(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("log", mode="archive")
    with SubscriptionManager(client) as manager:
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            manager.subscribe("news", Ear("log"))
        assert manager.subscribers == []
    assert subscriptions(db) == []


def test_a_subscriber_whose_queue_is_dropped_is_reported(
    client: pgq.PooledClient, caplog: pytest.LogCaptureFixture
) -> None:
    config = ConsumerConfig(notifications=False, poll_interval=timedelta(milliseconds=20))
    manager = SubscriptionManager(client, config)
    ear = Ear("ear")
    manager.subscribe("news", ear)
    client.drop_queue("ear")
    wait_for(lambda: manager.errors)
    assert isinstance(manager.errors["ear"], pgq.QueueNotFound)
    assert manager.subscribers == []
    assert "the consumer of ear has ended" in caplog.text
    assert manager.subscribe("news", ear)  # once more
    client.publish("news", 1)
    wait_for(lambda: ear.heard == [1])
    manager.close()
