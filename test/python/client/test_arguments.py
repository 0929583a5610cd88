"""Arguments as people write them: accepted if the meaning is clear, else a short error."""

from __future__ import annotations

import enum
import inspect
import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest

import pgq
from harness.server import Server
from pgq import Draft, F
from pgq.encoding import dumps
from pgq.relay import Relay, open_destination


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders")
    return client


# Durations


@pytest.mark.parametrize(
    ("given", "meant"),
    [(30, 30), (0.5, 0.5), ("90", 90), ("90s", 90), ("15m", 900), ("1h30m", 5400), ("500ms", 0.5)],
)
def test_a_duration_is_a_number_or_a_text(given: Any, meant: float) -> None:
    span = timedelta(seconds=meant)
    assert pgq.ConsumerConfig(lease=given, handler_timeout=given).lease == span
    assert pgq.TransportConfig(batch_timeout=given).batch_timeout == span
    assert pgq.Retry("later", delay=given).delay == span
    assert Draft(topic="orders", payload=1, delay=given).delay == span


def test_every_function_takes_such_durations(
    client: pgq.PooledClient, db: psycopg.Connection, dsn: str
) -> None:
    client.create_queue("orders", lease=60, backoff="2s", retention="2d", dedup_window=1)
    policy = client.queue_policy("orders") or {}
    assert (policy["lease"], policy["backoff"]) == (timedelta(minutes=1), timedelta(seconds=2))
    client.alter_queue("orders", lease="2m", max_backoff=9)
    assert (client.queue_policy("orders") or {})["lease"] == timedelta(minutes=2)
    client.publish("orders", 1, delay=3600, expires_in="1d")
    client.publish_batch("orders", [2], delay="1h")
    client.publish_many([Draft(topic="orders", payload=3, delay="1h")])
    assert db.execute("select count(*) from pgq.scheduled").fetchone() != (0,)
    assert not client.claim("orders")
    client.publish_batch("orders", [4, 5, 6])
    batch = client.claim("orders", n=3, lease=30, where=lambda m: m.payload < 6, refused_delay="1h")
    batch.nack(batch[0], delay="1h")
    batch.extend("5m")
    batch.release(delay=3600)
    client.wait_begin("orders", "w", 1)
    client.wait_end("orders", "w")
    with pytest.raises(pgq.RequestTimeout):
        client.request("orders", 7, timeout=0.05)
    with pgq.connect(dsn, timeout=5) as other, pgq.Publisher(other, delay="1s"):
        pass
    pgq.CircuitBreaker(window="2m", reset=30)
    assert pgq.ago("1h") == pgq.ago(3600) == pgq.ago(timedelta(hours=1))
    Relay(client, "orders", open_destination("memory:", timeout=5), linger="1s", timeout=30)


@pytest.mark.parametrize("given", ["soon", True, [1], "", float("nan"), 1e30, "9" * 30])
def test_an_invalid_duration_is_reported(orders: pgq.PooledClient, given: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"delay.*90s, 15m"):
        orders.publish("orders", 1, delay=given)
    with pytest.raises((ValueError, TypeError), match=r"lease.*90s, 15m"):
        pgq.ConsumerConfig(lease=given)


# Filters, numbers, lists


untyped: Any = pgq


def test_a_number_after_the_queue_is_how_many(orders: pgq.PooledClient) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    assert len(orders.peek("orders", 2)) == 2
    with pytest.raises(TypeError, match="n is given twice"):
        orders.peek("orders", 2, n=3)
    assert len(orders.claim("orders", 2)) == 2
    with pytest.raises(TypeError, match="n is given twice"):
        orders.claim("orders", 2, n=3)
    with pytest.raises(TypeError, match="n is a whole number"):
        orders.claim("orders", n="3")  # type: ignore[arg-type]


def test_a_filter_may_be_json_text(orders: pgq.PooledClient) -> None:
    orders.publish_batch("orders", [1, 2], headers=[{"type": "paid"}, {"type": "new"}])
    assert [m.payload for m in orders.claim("orders", '{"type": "paid"}', n=5)] == [1]
    with pytest.raises(pgq.InvalidFilter, match=r"JSON.*type='paid'"):
        orders.claim("orders", "type='paid'")
    with pytest.raises(pgq.InvalidFilter, match="an object"):
        orders.claim("orders", "[1]")
    with pytest.raises(TypeError, match=r"F.type is a field"):
        orders.claim("orders", F.type)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="filter"):
        orders.claim("orders", [1])  # type: ignore[arg-type]


def test_a_text_where_a_list_is_wanted(client: pgq.PooledClient) -> None:
    client.create_queue("orders", lane_keys="type")
    assert (client.queue_policy("orders") or {})["lane_keys"] == ["type"]
    for wrong in ("abc", {"a": 1}, 5):
        with pytest.raises(TypeError, match=r"payloads.*list"):
            client.publish_batch("orders", wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"dedup_keys.*list"):
        client.publish_batch("orders", [1], dedup_keys="k")
    for test in (F.a.in_, F.a.not_in, F.a.has_all):
        with pytest.raises(TypeError, match=r'\["abc"\]'):
            test("abc")
    with pytest.raises(TypeError, match="headers"):
        client.publish("orders", 1, headers="type=paid")  # type: ignore[arg-type]


def test_one_set_of_headers_is_for_all_of_a_batch(orders: pgq.PooledClient) -> None:
    orders.publish_batch("orders", [1, 2], headers={"type": "paid"})
    assert [m.headers for m in orders.claim("orders", 2)] == [{"type": "paid"}] * 2


def test_nothing_is_published_of_nothing(orders: pgq.PooledClient) -> None:
    assert orders.publish_batch("orders", []) == []


def test_messages_are_acknowledged_by_themselves_or_by_id(orders: pgq.PooledClient) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    one, two, three = orders.claim("orders", 3).messages
    assert orders.ack(one) == 1
    assert orders.ack(two.lease_id, two.id) == 1
    assert orders.release(three.lease_id, [three]) == 1


@pytest.mark.parametrize(
    ("call", "error_text"),
    [
        (lambda client: client.publish(5, 1), "topic is text, not 5"),
        (lambda client: client.publish("orders", 1, priority=1.5), "priority is a whole number"),
        (lambda client: client.publish("orders", 1, sender=5), "sender is text, not 5"),
        (lambda client: client.publish_batch("orders", [1], group_key=5), "group_key is text"),
        (lambda client: client.create_queue(5), "queue is text"),
        (lambda client: client.create_queue("q", max_attempts=1.5), "max_attempts is a whole"),
        (lambda client: client.create_queue("q", mode=1), "mode is text"),
        (lambda client: client.alter_queue("orders", set_size="x"), "set_size is a whole"),
        (lambda client: client.alter_queue("orders", leese=1), "a queue has no option leese"),
        (lambda client: client.claim(5), "topic is text"),
        (lambda client: client.claim("orders", key=5), "key is text"),
        (lambda client: client.publish("orders", 1, headers=["a"]), "headers"),
        (lambda client: client.subscribe(1, "a"), "queue is text"),
        (lambda client: client.subscribe("a", 1), "pattern is text"),
        (lambda client: client.peek(5), "queue is text"),
        (lambda client: untyped.Consumer(client, 5, print), "queue is text"),
        (lambda client: untyped.ConsumerConfig(filter=F.a), "F.a is a field"),
        (lambda client: pgq.ConsumerConfig(filter="x"), "JSON"),
        (lambda client: client.ack(1.5), "lease_id is a whole number"),
        (lambda client: client.ack("x"), "lease_id is a whole number"),
        (lambda client: client.ack(1, {"a": 1}), "a message, its id, or several"),
        (lambda client: client.ack(1, ["a"]), "id is a whole number"),
        (lambda client: client.nack(1, error=ValueError("x")), "error is text"),
        (lambda client: client.claim("orders", where="x"), "where is a function"),
        (lambda client: client.claim("orders", payload_type="Order"), "payload_type is a type"),
        (lambda client: client.claim("orders", done=5), "done is the batch"),
        (lambda client: client.create_queue("q", lane_keys=5), "lane_keys is a list of names"),
        (lambda client: client.create_queue("q", fair=1), "fair is True or False"),
        (lambda client: client.subscribe("a", "b", since="1h"), "since is a datetime"),
        (lambda client: client.subscribe("a", "b", since=3600), "since is a datetime"),
        (lambda client: client.publish_many([{"topic": "orders"}]), "is a Draft"),
        (lambda client: client.publish_many(5), "Drafts, not 5"),
        (lambda client: client.publish("orders", 1, serializer=["x"]), "named by text"),
        (lambda client: pgq.connect("", types={"orders": "Order"}), "orders is a type"),
        (lambda client: untyped.Consumer(client, "orders", print, {"lease": 5}), "ConsumerConfig"),
        (lambda client: untyped.ConsumerConfig(concurrency="4"), "concurrency is a whole number"),
        (lambda client: untyped.ConsumerConfig(batch_size="x"), "batch_size is a whole number"),
        (lambda client: untyped.ConsumerConfig(where="x"), "where is a function"),
        (lambda client: untyped.ConsumerConfig(payload_type=5), "payload_type is a type"),
        (lambda client: untyped.TransportConfig(batch_size="x"), "batch_size is a whole number"),
        (lambda client: untyped.TransportConfig(database_url=5), "database_url is text"),
        (lambda client: untyped.Transport({"batch_size": 5}), "TransportConfig"),
        (lambda client: untyped.MultiPublisher("memory:"), "an address .* create_transport"),
        (lambda client: untyped.MultiPublisher(["memory:"]), "has a method publish"),
    ],
)
def test_a_wrong_type_is_reported(orders: pgq.PooledClient, call: Any, error_text: str) -> None:
    with pytest.raises((TypeError, pgq.PgqError), match=error_text):
        call(orders)


# Error texts that do not help the caller.
MUTE = re.compile(
    r"function .* does not exist|AttributeError|not supported between|not iterable|unhashable"
    r"|invalid input syntax|unnamed portal|cannot adapt|not callable|has no attribute"
)
# Other places of the same method that are right.
RIGHT = {"payload": 1, "payloads": [1], "lease_id": 1, "id": 1, "message": 1, "message_id": 1}
RIGHT |= {"timeout": 1, "filter": None, "headers": {}, "drafts": []}
WRONG: list[Any] = [5, "x", 1.5, [5], {"a": 1}, {1}, object(), b"x", True]
ANY = {"payload", "patch", "details", "result"}


def methods() -> list[str]:
    """The public methods that take arguments, but those that run statements of others."""
    return sorted(
        name
        for name, method in inspect.getmembers(pgq.Client, inspect.isfunction)
        if not name.startswith(("_", "fetch_")) and len(inspect.signature(method).parameters) > 1
    )


def test_no_wrong_type_ends_in_an_error_of_another_library(orders: pgq.PooledClient) -> None:
    mute = []
    for name in methods():
        method = getattr(orders, name)
        parameters = [
            p for p in inspect.signature(method).parameters.values() if p.kind != p.VAR_KEYWORD
        ]
        right = {p.name: RIGHT.get(p.name, "orders") for p in parameters if p.default is p.empty}
        for parameter in parameters:
            for wrong in [] if parameter.name in ANY else WRONG:
                try:
                    method(**{**right, parameter.name: wrong})
                except Exception as error:
                    lines = f"{type(error).__name__}: {error}".splitlines()
                    if any(MUTE.search(line) for line in lines):
                        mute.append(f"{name}({parameter.name}={wrong!r}): {lines[0]}")
    assert not mute


def test_a_time_may_be_text(orders: pgq.PooledClient) -> None:
    orders.publish("orders", 1)
    assert orders.subscribe("late", "orders", since="2020-01-01T00:00:00Z")
    assert len(orders.claim("late")) == 1
    later = orders.publish("orders", 2, delay=3600)
    assert orders.reschedule("orders", later, at="2100-01-01T00:00:00+00:00") == 1


def test_a_connection_string_is_a_transport(dsn: str, orders: pgq.PooledClient) -> None:
    with pgq.Transport(dsn, enable_batching=False) as transport:
        transport.publish("orders", 1)
    assert len(orders.claim("orders")) == 1


# Clients


def test_a_connection_string_is_no_client(dsn: str) -> None:
    makers: list[Any] = [
        lambda: pgq.Consumer(dsn, "orders", print),  # type: ignore[arg-type]
        lambda: pgq.Publisher(dsn),  # type: ignore[arg-type]
        lambda: pgq.SubscriptionManager(dsn),  # type: ignore[arg-type]
        lambda: pgq.Client(dsn),
    ]
    for make in makers:
        with pytest.raises(TypeError, match=r"pgq\.connect"):
            make()


def test_a_borrowed_connection_cannot_consume(db: psycopg.Connection) -> None:
    with pytest.raises(TypeError, match=r"pgq\.connect"):
        pgq.Consumer(pgq.Client(db), "orders", print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"pgq\.Client"):
        pgq.connect(db)  # type: ignore[arg-type]


async def test_clients_of_threads_and_asyncio_are_not_mixed(
    client: pgq.PooledClient, async_client: pgq.AsyncPooledClient
) -> None:
    with pytest.raises(TypeError, match="connect_async"):
        pgq.AsyncConsumer(client, "orders", print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"pgq\.connect"):
        pgq.Consumer(async_client, "orders", print)  # type: ignore[arg-type]


def test_a_database_without_pgq_is_named(server: Server) -> None:
    with pgq.connect(server.create_database("pgq_bare")) as client:
        for call in (
            lambda: client.create_queue("orders"),
            lambda: client.publish("orders", 1),
            lambda: client.claim("orders"),
            lambda: client.publish_many([Draft(topic="orders", payload=1)]),
            lambda: client.queue_stats(),
            lambda: client.maintain(),
        ):
            with pytest.raises(pgq.NotInstalled, match="pgq install"):
                call()
        with pytest.raises(pgq.NotInstalled):
            pgq.Consumer(client, "orders", print).start()
    server.drop_database("pgq_bare")


def test_a_function_that_the_database_does_not_know_is_named(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    db.execute("alter function pgq.pause rename to pause_it")
    with pytest.raises(pgq.PgqError, match=r"another version(.|\n)*pgq install"):
        orders.pause("orders")
    db.execute("alter function pgq.pause_it rename to pause")


# What payloads may hold


class Color(enum.Enum):
    RED = "red"


@dataclass
class Line:
    article: str
    price: Decimal


MIXED = {
    "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "id": UUID("0b54d2ea-5bd7-4c29-b7e9-5a22c1a2b3c4"),
    "price": Decimal("12.340000000000000000001"),
    "color": Color.RED,
    "lines": [Line("pen", Decimal("1.5"))],
    "took": timedelta(seconds=1.5),
}


def test_payloads_may_have_common_types_of_python(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish("orders", MIXED, headers={"at": MIXED["at"], "price": Decimal("1.5")})
    orders.publish_batch("orders", [MIXED])
    orders.publish_many([Draft(topic="orders", payload=MIXED)])
    with pgq.Publisher(orders) as publisher:
        publisher.publish("orders", MIXED)
    pgq.Client(db).publish("orders", MIXED)
    memory = pgq.MemoryClient(on_demand=True)
    memory.publish("orders", MIXED)
    found = [*orders.claim("orders", 9), *memory.claim("orders")]
    assert len(found) == 6
    for message in found:
        assert message.payload == {
            "at": "2026-01-02T03:04:05+00:00",
            "day": "2026-01-02",
            "id": "0b54d2ea-5bd7-4c29-b7e9-5a22c1a2b3c4",
            "price": 12.34,
            "color": "red",
            "lines": [{"article": "pen", "price": 1.5}],
            "took": 1.5,
        }
    exact = db.execute("select distinct payload ->> 'price' from pgq.message").fetchall()
    assert exact == [("12.340000000000000000001",)]
    orders.publish("orders", MIXED)
    assert orders.claim("orders", F.payload.price > Decimal("12.3"))


@pytest.mark.parametrize("wrong", [b"x", object(), {1, 2}, float("nan"), Decimal("NaN")])
def test_a_value_that_is_not_json_is_reported(orders: pgq.PooledClient, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="JSON"):
        orders.publish("orders", {"a": wrong})
    with pytest.raises((TypeError, ValueError), match="JSON"):
        orders.publish_batch("orders", [{"a": wrong}])


def test_the_encoder_is_for_everybody() -> None:
    assert json.loads(dumps(MIXED))["color"] == "red"
    assert dumps([Decimal("1E+2"), Decimal("0.10"), True]) == "[1E+2, 0.10, true]"
