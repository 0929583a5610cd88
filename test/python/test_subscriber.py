"""Subscribers: objects that are told about the messages of topics."""

from __future__ import annotations

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
    """A subscriber that remembers what it has heard."""

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


def test_subscribers_hear_what_they_asked_for_once_whoever_wrote_it(
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


def test_of_what_is_gone_before_it_is_fetched_nobody_hears(
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
        wait_for(lambda: client.listener.hears)
        listening = db.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and query = 'listen pgq'"
        ).fetchone()
        assert listening == (1,)
    assert db.execute("select count(*) from pgq.queue").fetchone() == (0,)


def test_what_is_published_while_nobody_listens_is_told_later(client: pgq.PooledClient) -> None:
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
