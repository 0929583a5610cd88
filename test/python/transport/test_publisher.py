"""The batching publisher and the circuit breaker."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest

import pgq
from pgq import CircuitBreaker, Publisher

DEAD = "host=/nowhere dbname=x connect_timeout=1"


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders")
    client.create_queue("bills")
    return client


def count(db: psycopg.Connection) -> int:
    row = db.execute("select count(*) from pgq.message").fetchone()
    assert row is not None
    return int(row[0])


def test_messages_go_out_when_they_are_enough(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    with Publisher(orders) as publisher:
        for number in range(99):
            publisher.publish("orders", number)
        assert count(db) == 0
        publisher.publish("orders", 99)
        assert count(db) == 100
        assert publisher.waiting == 0
    assert [message.payload for message in orders.claim("orders", n=200)] == list(range(100))


def test_a_publisher_waits_for_five_seconds_by_default() -> None:
    options = inspect.signature(Publisher).parameters
    assert options["delay"].default == timedelta(seconds=5)


def test_messages_go_out_after_a_while(orders: pgq.PooledClient, db: psycopg.Connection) -> None:
    with Publisher(orders, delay=timedelta(milliseconds=200)) as publisher:
        for round in (1, 2):
            publisher.publish("orders", round)
            assert count(db) == round - 1
            wait_for(lambda: publisher.waiting == 0)
            assert count(db) == round


def test_messages_go_out_on_flush_and_on_close(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    publisher = Publisher(orders)
    assert publisher.flush() == 0
    publisher.publish("orders", 1)
    assert publisher.flush() == 1
    publisher.publish("orders", 2)
    publisher.close()
    assert count(db) == 2
    with pytest.raises(RuntimeError, match="closed"):
        publisher.publish("orders", 3)


def test_a_batch_of_several_topics_and_options_is_one_transaction(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    with Publisher(orders) as publisher:
        for number in range(10):
            publisher.publish("orders" if number % 2 else "bills", number, headers={"n": number})
        publisher.publish("orders", "first", priority=5)
        publisher.publish("orders", "once", dedup_key="k")
        publisher.publish("orders", "once", dedup_key="k")
    claimed = [message.payload for message in orders.claim("orders", n=20)]
    assert claimed == ["first", 1, 3, 5, 7, 9, "once"]
    assert db.execute("select count(distinct xmin::text) from pgq.message").fetchone() == (1,)


def test_threads_share_a_publisher(orders: pgq.PooledClient, db: psycopg.Connection) -> None:
    with Publisher(orders, size=7) as publisher:

        def work(thread: int) -> None:
            for number in range(50):
                publisher.publish("orders", [thread, number])

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert count(db) == 400
    rows = db.execute("select payload -> 0, payload -> 1 from pgq.message order by id").fetchall()
    for writer in range(8):
        assert [number for name, number in rows if name == writer] == list(range(50))


def test_a_message_that_is_refused_is_raised_and_stops_no_other(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    publisher = Publisher(orders, size=3)
    publisher.publish("orders", 1)
    publisher.publish("nobody", 2)
    publisher.publish("orders", 3)
    assert count(db) == 2
    with pytest.raises(pgq.PublishFailed, match="nobody") as caught:
        publisher.publish("orders", 4)
    assert [draft.payload for draft in caught.value.drafts] == [2]
    assert isinstance(caught.value.__cause__, pgq.NoQueue)
    publisher.publish("orders", 4)
    publisher.close()
    assert count(db) == 3


def test_messages_are_kept_while_the_database_is_away(
    orders: pgq.PooledClient, db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher(orders, size=2, capacity=4)
    with monkeypatch.context() as away:

        def fail() -> None:
            raise psycopg.OperationalError("away")

        away.setattr(orders, "transaction", fail)
        for number in range(4):
            publisher.publish("orders", number)
        assert publisher.waiting == 4
        with pytest.raises(psycopg.OperationalError, match="away"):
            publisher.publish("orders", 4)
        with pytest.raises(psycopg.OperationalError, match="away"):
            publisher.flush()
    publisher.close()
    assert [message.payload for message in orders.claim("orders", n=9)] == [0, 1, 2, 3]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fail(breaker: CircuitBreaker) -> None:
    with suppress(ConnectionError), breaker.guard(is_connection):
        raise ConnectionError


def is_connection(error: Exception) -> bool:
    return isinstance(error, ConnectionError)


def test_the_circuit_opens_after_five_failures_in_two_minutes_for_half_a_minute() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    for _ in range(4):
        fail(breaker)
    clock.now = 121
    fail(breaker)
    for _ in range(4):
        assert str(breaker.state) == "closed"
        with breaker.guard(is_connection):
            pass  # what works does not undo what has failed
        fail(breaker)
    assert str(breaker.state) == "open"
    with pytest.raises(pgq.CircuitOpen) as caught, breaker.guard(is_connection):
        pytest.fail("the circuit is open")
    assert "30 s" in (caught.value.hint or "")
    assert breaker.left == 30
    clock.now += 31
    assert str(breaker.state) == "half-open"
    with suppress(ConnectionError), breaker.guard(is_connection):
        with pytest.raises(pgq.CircuitOpen), breaker.guard(is_connection):
            pytest.fail("one trial at a time")
        raise ConnectionError
    assert str(breaker.state) == "open"
    clock.now += 31
    with breaker.guard(is_connection):
        pass
    assert str(breaker.state) == "closed"
    with breaker.guard(is_connection):
        pass


@pytest.mark.parametrize("error", [pgq.NoQueue("nobody"), KeyboardInterrupt()])
def test_a_trial_that_ends_otherwise_leaves_the_way_to_the_database_open(
    error: BaseException,
) -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, clock=clock)
    fail(breaker)
    clock.now = 30
    with suppress(type(error)), breaker.guard(is_connection):
        raise error
    # A rejected message is not a failure of the connection; after a cancelled call the next one is
    # the trial.
    assert str(breaker.state) == ("closed" if isinstance(error, pgq.NoQueue) else "half-open")
    with breaker.guard(is_connection):
        pass
    assert str(breaker.state) == "closed"


def test_threads_that_publish_do_not_wait_for_each_other_at_the_circuit() -> None:
    breaker = CircuitBreaker()
    together = threading.Barrier(2)

    def publish() -> None:
        with breaker.guard(is_connection):
            together.wait(10)  # both are in the block

    threads = [threading.Thread(target=publish) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not together.broken


def test_publishing_to_a_database_that_is_away_opens_the_circuit() -> None:
    client = pgq.PooledClient(DEAD, timeout=timedelta(milliseconds=50))
    client._pool.open()
    try:
        for _ in range(5):
            with pytest.raises(psycopg.OperationalError):
                client.publish("orders", 1)
        with pytest.raises(pgq.CircuitOpen):
            client.publish("orders", 1)
    finally:
        client.close()


def test_errors_that_are_no_trouble_of_the_connection_do_not_open_the_circuit(
    orders: pgq.PooledClient,
) -> None:
    for _ in range(6):
        with pytest.raises(pgq.NoQueue):
            orders.publish("nobody", 1)
    assert orders.breaker.state == "closed"
