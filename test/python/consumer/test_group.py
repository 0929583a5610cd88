"""A consumer group: several handlers behind one claim, each message to one that accepts it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import pgq
from pgq import F, Message


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


class Member:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, message: Message) -> None:
        self.seen.append(message.payload)


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", backoff=0)
    return client


def publish(client: pgq.PooledClient, *regions: str) -> None:
    client.publish_batch(
        "orders",
        [{"number": number} for number in range(len(regions))],
        headers=[{"region": region} for region in regions],
    )


def test_each_message_goes_to_one_member_that_accepts_it(orders: pgq.PooledClient) -> None:
    publish(orders, "EU", "US", "EU", "US", "EU", "EU")
    eu, also_eu, us = Member(), Member(), Member()
    group = pgq.ConsumerGroup(orders, "orders", drain=True, batch_size=4)
    group.add("eu", eu, F.region == "EU")
    group.add("also-eu", also_eu, {"region": "EU"})
    group.add("us", us, where=lambda message: message.headers["region"] == "US")
    group.run(signals=False)
    assert [one["number"] for one in us.seen] == [1, 3]
    assert sorted(one["number"] for one in eu.seen + also_eu.seen) == [0, 2, 4, 5]
    assert len(eu.seen) == len(also_eu.seen) == 2
    assert group.members == {"eu": 2, "also-eu": 2, "us": 2}


def test_what_no_member_accepts_stays_in_the_queue(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    publish(orders, "EU", "MARS")
    eu, mars = Member(), Member()
    group = pgq.ConsumerGroup(orders, "orders", refused_delay=timedelta(milliseconds=10))
    group.add("eu", eu, F.region == "EU")
    with group:
        wait_for(lambda: eu.seen)
        assert group.running
        group.add("mars", mars, F.region == "MARS")
        wait_for(lambda: mars.seen)
    assert group.error is None
    counted = db.execute("select max(attempt) from pgq.journal where event = 'ack'").fetchone()
    assert counted == (1,)


def test_the_filter_of_the_group_is_the_databases(orders: pgq.PooledClient) -> None:
    publish(orders, "EU", "US")
    all_of_it = Member()
    group = pgq.ConsumerGroup(orders, "orders", filter=F.region == "EU", drain=True)
    group.add("all", all_of_it)
    group.run(signals=False)
    assert [one["number"] for one in all_of_it.seen] == [0]


def test_a_member_that_raises_fails_alone(orders: pgq.PooledClient, db: psycopg.Connection) -> None:
    publish(orders, "EU", "US")
    us = Member()

    def fail(message: Message) -> None:
        raise ValueError("spoilt")

    group = pgq.ConsumerGroup(orders, "orders", drain=True)
    group.add("eu", fail, F.region == "EU")
    group.add("us", us, F.region == "US")
    group.run(signals=False)
    assert len(us.seen) == 1
    ((error, details),) = db.execute("select error, details from pgq.dead_letter").fetchall()
    assert error == "ValueError: spoilt"
    assert "member eu of the group" in details["traceback"]


def test_members_have_names(orders: pgq.PooledClient) -> None:
    group = pgq.ConsumerGroup(orders, "orders")
    group.add("one", print)
    with pytest.raises(ValueError, match="member one already"):
        group.add("one", print)
    assert group.remove("one")
    assert not group.remove("one")

    async def coroutine(message: Message) -> None: ...

    with pytest.raises(TypeError, match="coroutine"):
        group.add("two", coroutine)
    with pytest.raises(pgq.InvalidFilter):
        group.add("three", print, "{")


@dataclass
class Order:
    number: int


async def test_a_group_of_asyncio(async_client: pgq.AsyncPooledClient) -> None:
    await async_client.create_queue("orders")
    await async_client.publish_batch("orders", [Order(1), Order(2)])
    small: list[Order] = []
    large: list[Order] = []

    async def take(message: Message) -> None:
        small.append(message.payload)

    group = pgq.AsyncConsumerGroup(async_client, "orders", payload_type=Order, drain=True)
    group.add("small", take, F.payload.number < 2)
    group.add("large", lambda message: large.append(message.payload), F.payload.number >= 2)
    await group.run(signals=False)
    assert (small, large) == ([Order(1)], [Order(2)])
