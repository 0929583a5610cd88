"""Handlers: what may be one, how long it may take, and what a consumer says when it fails."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import pgq
from pgq import Message


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", max_attempts=2, backoff=timedelta(0))
    return client


def records(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    return [
        {**record.__dict__, "text": record.getMessage()}
        for record in caplog.records
        if record.name == "pgq" and record.__dict__["event"] == event
    ]


def letters(db: psycopg.Connection) -> list[tuple[Any, ...]]:
    return db.execute("select payload, error from pgq.dead_letter order by message_id").fetchall()


# What may be a handler


async def coroutine(message: Message) -> None:
    raise AssertionError("nobody runs it")


class Callee:
    async def __call__(self, message: Message) -> None:
        raise AssertionError("nobody runs it")

    async def method(self, message: Message) -> None:
        raise AssertionError("nobody runs it")


@pytest.mark.parametrize(
    "handler",
    [coroutine, Callee(), Callee().method, functools.partial(coroutine)],
    ids=["function", "object", "method", "partial"],
)
def test_a_coroutine_is_no_handler_of_a_consumer_on_threads(
    orders: pgq.PooledClient, handler: Callable[[Message], Any]
) -> None:
    with pytest.raises(TypeError, match="AsyncConsumer"):
        pgq.Consumer(orders, "orders", handler)
    with pytest.raises(TypeError, match="AsyncConsumer"):
        pgq.run_processes(1, "", "orders", handler)


def generator(message: Message) -> Iterator[int]:
    yield 1


async def async_generator(message: Message) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("handler", [generator, async_generator])
async def test_a_generator_is_no_handler(
    async_client: pgq.AsyncPooledClient,
    orders: pgq.PooledClient,
    handler: Callable[[Message], Any],
) -> None:
    with pytest.raises(TypeError, match="generator"):
        pgq.Consumer(orders, "orders", handler)
    with pytest.raises(TypeError, match="generator"):
        pgq.AsyncConsumer(async_client, "orders", handler)


def test_what_is_no_function_is_no_handler(orders: pgq.PooledClient) -> None:
    with pytest.raises(TypeError, match="handler"):
        pgq.Consumer(orders, "orders", "handle")  # type: ignore[arg-type]


def test_a_handler_that_returns_an_awaitable_has_not_run(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish("orders", 1)
    consumer = pgq.Consumer(orders, "orders", lambda message: coroutine(message), drain=True)
    consumer.run(signals=False)
    assert (consumer.handled, consumer.failed) == (0, 2)
    ((payload, error),) = letters(db)
    assert payload == 1
    assert "awaitable" in error
    assert "AsyncConsumer" in error


async def test_an_awaitable_result_is_awaited(async_client: pgq.AsyncPooledClient) -> None:
    await async_client.create_queue("orders")
    await async_client.publish("orders", 1)
    ran: list[Any] = []

    async def handle(message: Message, where: list[Any]) -> None:
        await asyncio.sleep(0)
        where.append(message.payload)

    consumer = pgq.AsyncConsumer(
        async_client, "orders", lambda message: handle(message, ran), drain=True
    )
    await consumer.run(signals=False)
    assert ran == [1]
    assert consumer.handled == 1


# How long it may take


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_handler_that_hangs_fails_alone(
    orders: pgq.PooledClient,
    db: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
    concurrency: int,
) -> None:
    orders.publish_batch("orders", ["hang", *range(6)])
    over = threading.Event()
    seen: list[Any] = []

    def handle(message: Message) -> None:
        if message.payload == "hang":
            over.wait(60)
        seen.append(message.payload)

    try:
        with pgq.Consumer(
            orders,
            "orders",
            handle,
            concurrency=concurrency,
            handler_timeout=timedelta(seconds=1),
        ) as consumer:
            wait_for(lambda: sorted(map(str, seen)) == list("012345") and letters(db))
            assert consumer.running
            orders.publish("orders", "after")
            wait_for(lambda: "after" in seen)
    finally:
        over.set()
    ((payload, error),) = letters(db)
    assert payload == "hang"
    assert "1 s" in error
    assert db.execute(
        "select count(*) from pgq.message_state where state <> 'dead'"
    ).fetchone() == (0,)
    attempts = db.execute("select max(attempt) from pgq.journal where event = 'ack'").fetchone()
    assert attempts == (1,)
    assert consumer.failed == 2
    assert [record["attempt"] for record in records(caplog, "handler_timed_out")] == [1, 2]
    details = db.execute("select details from pgq.dead_letter").fetchone()
    assert details is not None
    assert "over.wait" in details[0]["traceback"]


def test_a_queue_limits_how_long_a_handler_can_hold_its_message(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders", max_attempts=1, lease=1, max_lease=2)
    client.publish_batch("orders", ["hang", *range(6)])
    over = threading.Event()
    seen: list[Any] = []

    def handle(message: Message) -> None:
        if message.payload == "hang":
            over.wait(60)
        seen.append(message.payload)

    try:
        with pgq.Consumer(client, "orders", handle, handler_timeout=None) as consumer:
            wait_for(lambda: sorted(map(str, seen)) == list("012345") and letters(db))
            assert consumer.running
    finally:
        over.set()
    ((payload, error),) = letters(db)
    assert payload == "hang"
    assert "cannot last longer" in error


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_task_that_hangs_is_cancelled(
    async_client: pgq.AsyncPooledClient, db: psycopg.Connection, concurrency: int
) -> None:
    await async_client.create_queue("orders", max_attempts=1)
    await async_client.publish_batch("orders", ["hang", *range(6)])
    seen: list[Any] = []

    async def handle(message: Message) -> None:
        if message.payload == "hang":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
        seen.append(message.payload)

    async with pgq.AsyncConsumer(
        async_client,
        "orders",
        handle,
        concurrency=concurrency,
        handler_timeout=timedelta(seconds=1),
    ):
        await until(lambda: len(seen) == 7 and letters(db))
    assert sorted(map(str, seen)) == [*"012345", "cancelled"]
    ((payload, error),) = letters(db)
    assert payload == "hang"
    assert "1 s" in error


def test_a_handler_has_a_time_limit_by_default() -> None:
    assert pgq.ConsumerConfig().handler_timeout == timedelta(minutes=30)
    assert pgq.ConsumerConfig(handler_timeout=None).handler_timeout is None
    assert pgq.ConsumerConfig.of(None, handler_timeout=None).handler_timeout is None
    with pytest.raises(ValueError, match="handler_timeout"):
        pgq.ConsumerConfig(handler_timeout=timedelta(0))


# A consumer that dies


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_consumer_that_cannot_begin_says_so_where_it_is_started(
    client: pgq.PooledClient, caplog: pytest.LogCaptureFixture, concurrency: int
) -> None:
    client.create_queue("orders")
    client.create_queue("log", mode="archive")
    wrong: list[tuple[pgq.Consumer, type[Exception]]] = [
        (pgq.Consumer(client, "nope", print, concurrency=concurrency), pgq.QueueNotFound),
        (
            pgq.Consumer(client, "orders", print, filter={"a": {"$what": 1}}),
            pgq.InvalidFilter,
        ),
        (pgq.Consumer(client, "log", print), psycopg.errors.FeatureNotSupported),
    ]
    for consumer, kind in wrong:
        caplog.clear()
        with pytest.raises(kind):
            consumer.start()
        assert not consumer.running
        assert isinstance(consumer.error, kind)
        (told,) = records(caplog, "consumer_died")
        assert told["queue"] == consumer.queue
        assert told["levelname"] == "ERROR"
        consumer.close()


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_consumer_whose_queue_is_dropped_reports_it(
    client: pgq.PooledClient, caplog: pytest.LogCaptureFixture, concurrency: int
) -> None:
    client.create_queue("orders")
    consumer = pgq.Consumer(
        client,
        "orders",
        print,
        concurrency=concurrency,
        notifications=False,
        poll_interval=timedelta(milliseconds=20),
    ).start()
    assert consumer.running
    assert consumer.error is None
    client.drop_queue("orders")
    wait_for(lambda: not consumer.running)
    assert isinstance(consumer.error, pgq.QueueNotFound)
    assert len(records(caplog, "consumer_died")) == 1
    with pytest.raises(pgq.QueueNotFound):
        consumer.close()


async def test_a_consumer_of_asyncio_says_so_too(
    async_client: pgq.AsyncPooledClient, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = pgq.AsyncConsumer(async_client, "nope", print)
    with pytest.raises(pgq.QueueNotFound):
        await consumer.start()
    assert (consumer.running, type(consumer.error)) == (False, pgq.QueueNotFound)
    assert len(records(caplog, "consumer_died")) == 1


def test_a_handler_that_exits_ends_no_consumer(orders: pgq.PooledClient) -> None:
    orders.publish_batch("orders", [1, 2])

    def handle(message: Message) -> None:
        if message.payload == 1:
            raise SystemExit(1)

    consumer = pgq.Consumer(orders, "orders", handle, drain=True)
    consumer.run(signals=False)
    assert (consumer.handled, consumer.failed) == (1, 2)


# What is logged


def test_what_the_server_says_is_logged(
    client: pgq.PooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pgq"):
        client.subscribe("ear", "news", {"a": 1})
        client.subscribe("ear", "news", {"a": 2})
        (notice,) = records(caplog, "server_notice")
        assert "with another filter" in notice["text"]
        assert "alter_subscription" in notice["text"]
        caplog.clear()
        pgq.Client(db).subscribe("ear", "news", {"a": 2})
        pgq.Client(db).subscribe("ear", "news", {"a": 3})
        assert len(records(caplog, "server_notice")) == 2
        caplog.clear()
        # Notices of the borrower's own statements are not logged.
        db.execute("do $$ begin raise warning 'mine'; end $$")
        assert caplog.records == []


def test_a_warning_of_the_server_is_a_warning(
    client: pgq.PooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    db.execute(
        "create or replace function pgq.version() returns text language plpgsql as $$"
        " begin raise warning 'slow' using hint = 'Hurry.'; return '0'; end $$"
    )
    client.version()
    (told,) = records(caplog, "server_warning")
    assert (told["levelname"], told["text"]) == ("WARNING", "slow (Hurry.)")


def test_a_failed_delivery_logs_the_outcome_of_the_message(
    client: pgq.PooledClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.create_queue("orders", max_attempts=3, backoff=timedelta(milliseconds=8))
    id = client.publish("orders", "bad")

    def handle(message: Message) -> None:
        if message.attempt == 2:
            raise pgq.Retry("later", delay=timedelta(milliseconds=1))
        raise ValueError("spoilt")

    with (
        caplog.at_level(logging.INFO, "pgq"),
        pgq.Consumer(client, "orders", handle) as consumer,
    ):
        wait_for(lambda: records(caplog, "message_died"))
    assert consumer.failed == 3
    first, last = records(caplog, "message_failed")
    (between,) = records(caplog, "message_retried")
    (died,) = records(caplog, "message_died")
    assert [told["attempt"] for told in (first, between, last, died)] == [1, 2, 3, 3]
    assert {told["max_attempts"] for told in (first, between, last, died)} == {3}
    assert (first["retry_in"], between["retry_in"], last["retry_in"]) == (0.008, 0.001, None)
    assert f"message {id}, attempt 1 of 3: retried within 0.008 s" in first["text"]
    assert f"message {id}, attempt 2 of 3: retried within 0.001 s" in between["text"]
    assert "attempt 3 of 3: now a dead letter" in last["text"]
    assert (died["levelname"], died["message_id"], died["queue"]) == ("ERROR", id, "orders")


def test_a_rejected_message_has_died(
    orders: pgq.PooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    id = orders.publish("orders", "worse")

    def refuse_it(message: Message) -> None:
        raise pgq.Reject("hopeless")

    with caplog.at_level(logging.INFO, "pgq"):
        pgq.Consumer(orders, "orders", refuse_it, drain=True).run(signals=False)
    (died,) = records(caplog, "message_died")
    assert (died["message_id"], died["attempt"]) == (id, 1)
    found = db.execute("select details from pgq.dead_letter").fetchone()
    assert found is not None
    assert found[0]["handler"].endswith("refuse_it")


def test_a_dead_letter_names_the_handler_and_its_process(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish("orders", 1)

    def break_it(message: Message) -> None:
        raise ValueError("broken")

    pgq.Consumer(orders, "orders", break_it, drain=True).run(signals=False)
    found = db.execute("select details from pgq.dead_letter").fetchone()
    assert found is not None
    assert found[0]["handler"] == f"{__name__}.{break_it.__qualname__}"
    assert found[0]["process"]
    assert "broken" in found[0]["traceback"]


def test_a_long_backoff_is_logged(
    client: pgq.PooledClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.create_queue("orders", max_attempts=100, backoff="1d", max_backoff="1d")
    client.publish("orders", 1)

    def fail(message: Message) -> None:
        raise ValueError("spoilt")

    consumer = pgq.Consumer(client, "orders", fail, drain=True)
    for _ in range(40):
        client.claim("orders").nack(delay=0)
    consumer.run(signals=False)
    (told,) = records(caplog, "message_failed")
    assert told["retry_in"] == 86400
