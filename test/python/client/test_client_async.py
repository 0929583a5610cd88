"""The client and the consumers on asyncio: what differs from those on threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
import pytest_asyncio

import pgq
from harness.paths import ROOT
from harness.server import SETTINGS
from pgq import Draft, F, Message, embedded
from pgq._shared import sql

SHORT = timedelta(milliseconds=100)


async def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def orders(async_client: pgq.AsyncPooledClient) -> AsyncIterator[pgq.AsyncPooledClient]:
    await async_client.create_queue("orders", backoff=SHORT, max_backoff=SHORT)
    yield async_client


def states(db: psycopg.Connection) -> list[tuple[Any, ...]]:
    return db.execute("select state, attempt from pgq.message_state order by id").fetchall()


class Handler:
    """Records the messages that it was called with."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def __call__(self, message: Message) -> None:
        self.seen.append(message.payload)

    def has(self, *payloads: Any) -> Callable[[], bool]:
        return lambda: sorted(self.seen) == sorted(payloads)


async def test_a_message_lives_and_is_done(
    orders: pgq.AsyncPooledClient, db: psycopg.Connection
) -> None:
    await orders.publish("orders", {"amount": 101})
    await orders.publish_many(Draft(topic="orders", payload={"amount": n}) for n in range(99))
    async with await orders.claim("orders", F.payload.amount > 100, n=10) as batch:
        assert [message.payload for message in batch] == [{"amount": 101}]
    async with await orders.claim("orders", n=200) as batch:
        assert len(batch) == 99
        await batch.extend()
        await batch.ack(batch[0])
    assert states(db) == []


async def test_a_lent_connection_is_never_committed(
    orders: pgq.AsyncPooledClient, dsn: str
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await pgq.AsyncClient(conn).publish("orders", 1)
        await conn.rollback()
    assert not await orders.claim("orders")


async def test_a_transaction_of_the_pool_is_one(orders: pgq.AsyncPooledClient) -> None:
    async with orders.transaction() as tx:
        await tx.publish("orders", 1)
        assert not await orders.claim("orders")
    assert await orders.claim("orders")


async def test_a_loop_acknowledges_the_messages_before_the_current_one(
    orders: pgq.AsyncPooledClient, db: psycopg.Connection
) -> None:
    await orders.publish_batch("orders", list(range(250)))
    seen = [message.payload async for message in orders.consume("orders", drain=True)]
    assert seen == list(range(250))
    assert states(db) == []


async def test_a_loop_that_fails_refuses_the_message_in_hand(
    orders: pgq.AsyncPooledClient, db: psycopg.Connection
) -> None:
    await orders.publish_batch("orders", [1, 2, 3])

    async def fail() -> None:
        async with orders.consume("orders") as messages:
            async for message in messages:
                if message.payload == 2:
                    raise ValueError("two")

    with pytest.raises(ValueError, match="two"):
        await fail()
    assert states(db) == [("retrying", 1), ("ready", 0)]


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_consumer_handles_the_backlog_and_new_messages(
    orders: pgq.AsyncPooledClient, db: psycopg.Connection, concurrency: int
) -> None:
    await orders.publish_batch("orders", list(range(100)))
    handler, channel = Handler(), await orders.channel("orders")
    async with pgq.AsyncConsumer(orders, "orders", handler, concurrency=concurrency):
        await wait_for(lambda: len(handler.seen) == 100)
        await wait_for(lambda: orders.listener.hears(channel) or orders.listener.impossible)
        await asyncio.sleep(0.2)
        await orders.publish("orders", 100)
        await wait_for(lambda: len(handler.seen) == 101, 5)
    assert sorted(handler.seen) == list(range(101))
    assert states(db) == []


async def test_a_plain_function_does_not_hold_up_the_loop(orders: pgq.AsyncPooledClient) -> None:
    begun, ticked, seen = threading.Event(), threading.Event(), []

    def handle(message: Message) -> None:
        begun.set()
        seen.append(ticked.wait(20))

    await orders.publish("orders", 1)
    async with pgq.AsyncConsumer(orders, "orders", handle):
        await wait_for(begun.is_set)
        for _ in range(20):
            await asyncio.sleep(0.01)
        ticked.set()
        await wait_for(lambda: seen)
    assert seen == [True]


async def test_a_handler_that_raises_affects_no_other_message(
    orders: pgq.AsyncPooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await orders.publish_batch("orders", ["a", "bad", "c"])
    seen = []

    async def handle(message: Message) -> None:
        seen.append(message.payload)
        if message.payload == "bad":
            raise ValueError("spoilt")

    async with pgq.AsyncConsumer(orders, "orders", handle, concurrency=2):
        await wait_for(lambda: seen.count("bad") == 3)
    assert seen.count("a") == seen.count("c") == 1
    assert states(db) == [("dead", 3)]


async def test_a_lease_is_renewed_while_a_handler_runs(
    orders: pgq.AsyncPooledClient, db: psycopg.Connection
) -> None:
    over, done = asyncio.Event(), []

    async def handle(message: Message) -> None:
        await over.wait()
        done.append(message.payload)

    await orders.publish("orders", 1)
    lease = timedelta(seconds=1)
    outlived = "select from pgq.lease where pgq.now() > claimed_at + interval '1.1 s'"
    async with pgq.AsyncConsumer(orders, "orders", handle, lease=lease):
        await wait_for(lambda: db.execute(outlived).fetchone() is not None)
        assert not await orders.claim("orders")
        over.set()
        await wait_for(lambda: done)
    assert db.execute("select event from pgq.journal").fetchall() == [("ack",)]


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_handler_that_takes_longer_than_the_grace_is_cancelled(
    orders: pgq.AsyncPooledClient,
    db: psycopg.Connection,
    concurrency: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cancelled = []
    begun = asyncio.Event()

    async def handle(message: Message) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(message.payload)
            raise

    await orders.publish("orders", 1)
    options: dict[str, Any] = {"grace": SHORT, "concurrency": concurrency}
    async with pgq.AsyncConsumer(orders, "orders", handle, **options):
        await begun.wait()
    assert cancelled == [1]
    assert states(db) == [("ready", 0)]


@pytest.mark.unpooled("LISTEN needs a session")
async def test_a_listener_whose_backend_is_killed_misses_nothing(
    orders: pgq.AsyncPooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    handler, channel = Handler(), await orders.channel("orders")
    async with pgq.AsyncConsumer(orders, "orders", handler):
        await wait_for(lambda: orders.listener.hears(channel))
        db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and query like 'listen %'"
        )
        await orders.publish("orders", 1)
        await wait_for(handler.has(1))
        await wait_for(lambda: orders.listener.hears(channel))
        await orders.publish("orders", 2)
        await wait_for(handler.has(1, 2))


@pytest.mark.unpooled("LISTEN needs a session")
async def test_a_consumer_that_comes_later_is_woken_too(orders: pgq.AsyncPooledClient) -> None:
    await orders.create_queue("bills")
    hour = timedelta(hours=1)
    options: dict[str, Any] = {"poll_interval": hour, "idle_timeout": hour}
    handlers = {"orders": Handler(), "bills": Handler()}
    async with AsyncExitStack() as stack:
        for queue, handler in handlers.items():
            # The second one comes while the connection waits for notifications.
            await stack.enter_async_context(pgq.AsyncConsumer(orders, queue, handler, **options))
            channel = await orders.channel(queue)
            await wait_for(partial(orders.listener.hears, channel))
        for queue, handler in handlers.items():
            await orders.publish(queue, 1)
            await wait_for(handler.has(1))


async def test_a_consumer_survives_a_crash_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = Handler()
    with embedded.start(extension_dir=ROOT, settings=SETTINGS) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
        async with await pgq.connect_async(server.dsn()) as client:
            await client.create_queue("orders")
            async with pgq.AsyncConsumer(client, "orders", handler):
                await client.publish("orders", 1)
                await wait_for(handler.has(1))
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(0.3)
                await asyncio.to_thread(server.start)
                with psycopg.connect(server.dsn(), autocommit=True) as conn:
                    conn.execute("select pgq.publish('orders', '2')")
                await wait_for(lambda: 2 in handler.seen)


async def test_messages_are_published_together(
    orders: pgq.AsyncPooledClient, db: psycopg.Connection
) -> None:
    async with pgq.AsyncPublisher(orders, size=10, delay=SHORT) as publisher:
        await asyncio.gather(*(publisher.publish("orders", number) for number in range(25)))
        await wait_for(lambda: publisher.waiting == 0)
        await publisher.publish("orders", 25)
    assert db.execute("select count(*) from pgq.message").fetchone() == (26,)


async def test_subscribers_get_matching_messages(async_client: pgq.AsyncPooledClient) -> None:
    class Ear:
        subscriber_id = "ear"

        def __init__(self) -> None:
            self.heard: list[Any] = []

        async def on_message(self, message: Message) -> None:
            self.heard.append(message.payload)

    ear = Ear()
    async with pgq.AsyncSubscriptionManager(async_client) as manager:
        assert await manager.subscribe("news.*", ear)
        await async_client.publish("news.sport", 1)
        await wait_for(lambda: ear.heard == [1])
        assert await manager.unsubscribe_all("ear") == 1


async def test_a_question_is_answered(
    async_client: pgq.AsyncPooledClient, db: psycopg.Connection
) -> None:
    await async_client.create_queue("sum")

    async def answer(message: Message) -> None:
        await async_client.reply(message, sum(message.payload))

    async with pgq.AsyncConsumer(async_client, "sum", answer, concurrency=2):
        replies = await asyncio.gather(
            *(async_client.request("sum", [n, 1], timeout=timedelta(seconds=20)) for n in range(5))
        )
    assert [reply.payload for reply in replies] == [1, 2, 3, 4, 5]
    await async_client.close()
    assert db.execute("select name from pgq.queue").fetchall() == [("sum",)]


async def test_a_consumer_that_is_cancelled_in_its_next_claim_acknowledges_its_work(
    orders: pgq.AsyncPooledClient, db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await orders.publish("orders", 1)
    claiming = asyncio.Event()
    once = orders._once

    async def wait(statement: Any, parameters: Any, factory: Any) -> Any:
        if statement is sql.CLAIM and parameters[-1] is not None:
            claiming.set()
            await asyncio.sleep(60)
        return await once(statement, parameters, factory)

    monkeypatch.setattr(orders, "_once", wait)

    async def consume() -> None:
        async with orders.consume("orders") as messages:
            async for _ in messages:
                pass

    task = asyncio.create_task(consume())
    await asyncio.wait_for(claiming.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert states(db) == []
