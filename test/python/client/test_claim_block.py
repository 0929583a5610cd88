"""The block of a claim: the outcome of its messages when it ends, is left, or raises."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import pgq
from pgq import Message


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", backoff=timedelta(0))
    return client


def fail_at(wanted: Any, error: BaseException, batch: pgq.Batch) -> None:
    """Handle the messages one by one, until the wanted one."""
    for message in batch:
        if message.payload == wanted:
            raise error


def states(db: psycopg.Connection) -> list[tuple[Any, ...]]:
    return db.execute(
        "select m.payload, s.state, s.attempt"
        " from pgq.message_state s join pgq.message m using (id) order by s.id"
    ).fetchall()


def test_a_message_that_raises_takes_no_other_with_it(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", list(range(10)))
    handled: list[int] = []

    def work() -> None:
        with orders.claim("orders", n=10) as batch:
            for message in batch:
                if message.payload == 7:
                    raise ValueError("seven")
                handled.append(message.payload)

    for _ in range(3):
        with pytest.raises(ValueError, match="seven"):
            work()
    with orders.claim("orders", n=10) as batch:
        handled += [message.payload for message in batch]
    assert sorted(handled) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    letters = db.execute("select payload, attempts, error from pgq.dead_letter").fetchall()
    assert letters == [(7, 3, "ValueError: seven")]


def test_an_exception_acknowledges_refuses_and_gives_back(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", [1, 2, 3, 4])
    with pytest.raises(ValueError, match="three"), orders.claim("orders", n=4) as batch:
        fail_at(3, ValueError("three"), batch)
    assert states(db) == [(3, "ready", 1), (4, "ready", 0)]


def test_an_interrupted_block_counts_no_attempt(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", [1, 2, 3, 4])
    with pytest.raises(KeyboardInterrupt), orders.claim("orders", n=4) as batch:
        fail_at(3, KeyboardInterrupt(), batch)
    assert states(db) == [(3, "ready", 0), (4, "ready", 0)]


def test_a_loop_that_is_left_releases_the_messages_it_did_not_reach(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", [1, 2, 3, 4])
    with orders.claim("orders", n=4) as batch:
        for message in batch:
            if message.payload == 2:
                break
    assert states(db) == [(3, "ready", 0), (4, "ready", 0)]


def test_what_was_ended_by_hand_stays_as_it_is(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", [1, 2, 3, 4])
    claimed = orders.claim("orders", n=4)
    claimed.bury(claimed[0], error="no")
    claimed.ack(claimed[3])
    with pytest.raises(ValueError, match="three"), claimed as batch:
        fail_at(3, ValueError("three"), batch)
    assert states(db) == [(1, "dead", 1), (3, "ready", 1)]


def whole(batch: pgq.Batch) -> None:
    rows = [message.payload for message in batch]
    raise ValueError(len(rows))


def single(batch: pgq.Batch) -> None:
    raise ValueError(batch[0].payload)


@pytest.mark.parametrize("work", [whole, single])
def test_a_block_that_handles_all_messages_fails_as_a_whole(
    orders: pgq.PooledClient, db: psycopg.Connection, work: Callable[[pgq.Batch], None]
) -> None:
    orders.publish_batch("orders", [1, 2])
    with pytest.raises(ValueError, match=r"[12]"), orders.claim("orders", n=2) as batch:
        work(batch)
    assert states(db) == [(1, "ready", 1), (2, "ready", 1)]


def test_the_last_loop_over_a_batch_counts(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    claimed = orders.claim("orders", n=3)
    assert len([message.id for message in claimed]) == 3
    with pytest.raises(ValueError, match="two"), claimed as batch:
        fail_at(2, ValueError("two"), batch)
    assert states(db) == [(2, "ready", 1), (3, "ready", 0)]


def test_a_lost_lease_hides_no_error(
    orders: pgq.PooledClient, caplog: pytest.LogCaptureFixture
) -> None:
    orders.publish_batch("orders", [1, 2])

    def work() -> None:
        with orders.claim("orders", n=2) as batch:
            for message in batch:
                orders.release(message.lease_id)
                raise ValueError("mine")

    with caplog.at_level(logging.WARNING, "pgq"), pytest.raises(ValueError, match="mine"):
        work()
    assert [record.__dict__["event"] for record in caplog.records] == ["messages_redelivered"]
    assert len(orders.claim("orders", n=5)) == 2


async def test_a_batch_of_asyncio_does_the_same(
    async_client: pgq.AsyncPooledClient, db: psycopg.Connection
) -> None:
    await async_client.create_queue("orders", backoff=timedelta(0))
    await async_client.publish_batch("orders", [1, 2, 3])

    async def work() -> None:
        async with await async_client.claim("orders", n=3) as batch:
            for message in batch:
                if message.payload == 2:
                    raise ValueError("two")

    with pytest.raises(ValueError, match="two"):
        await work()
    assert states(db) == [(2, "ready", 1), (3, "ready", 0)]


def test_a_message_can_be_named_by_its_id(orders: pgq.PooledClient, db: psycopg.Connection) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    batch = orders.claim("orders", n=3)
    assert batch.ack(batch[0].id) == 1
    assert batch.ack([batch[1].id]) == 1
    left: list[Message] = batch.left
    assert [message.payload for message in left] == [3]
    with pytest.raises(TypeError, match="a message, its id, or several of them"):
        batch.ack("3")  # type: ignore[arg-type]
    batch.release()
