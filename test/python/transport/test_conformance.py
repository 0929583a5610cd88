"""The behaviour that all transports share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

import pgq
from harness.object_storage import CREDENTIALS, ObjectStorage, messages
from harness.redis_server import RedisServer
from harness.webhook import Hook
from pgq.relay import Destination, Direct, Record, open_destination

Read = Callable[[], list[dict[str, Any]]]


@dataclass
class Place:
    """A transport, and a function that returns the messages that arrived."""

    transport: Any
    read: Read
    destination: Destination | None = None


def claimed(client: Any) -> list[dict[str, Any]]:
    rows = []
    for message in client.claim("orders", n=1000):
        headers = {key: value for key, value in message.headers.items() if key != "pgq_id"}
        rows.append(
            {
                "id": message.headers.get("pgq_id", message.id),
                "topic": message.topic,
                "headers": headers,
                "payload": message.payload,
                "sender": message.sender,
                "group_key": message.group_key,
                "correlation_id": message.correlation_id,
            }
        )
    return rows


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RedisServer, ObjectStorage]]:
    place = tmp_path_factory.mktemp("redis")
    with pytest.MonkeyPatch.context() as patch, RedisServer(place) as cache, ObjectStorage() as s3:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
        s3.make_bucket("orders")
        yield cache, s3


def files(directory: Path) -> Read:
    def read() -> list[dict[str, Any]]:
        paths = sorted(directory.rglob("*.*"), key=lambda path: path.stat().st_mtime_ns)
        return [row for path in paths for row in messages(path.name, path.read_bytes())]

    return read


def make(kind: str, stack: ExitStack, place: Path, request: pytest.FixtureRequest) -> Place:
    if kind == "memory":
        memory = stack.enter_context(pgq.MemoryTransport(enable_batching=False))
        memory.create_queue("orders")
        return Place(memory, lambda: claimed(memory.client))
    if kind in ("client", "transport", "other database"):
        dsn = request.getfixturevalue("dsn")
        client = stack.enter_context(pgq.connect(dsn))
        client.create_queue("orders")
        if kind == "client":
            return Place(client, lambda: claimed(client))
        if kind == "transport":
            transport = stack.enter_context(pgq.Transport(database_url=dsn))
            return Place(transport, lambda: claimed(client) if transport.flush() >= 0 else [])
        given = psycopg.conninfo.conninfo_to_dict(dsn)
        words = [f"{name}={value}" for name, value in given.items() if name != "dbname"]
        url = f"postgresql:///{given['dbname']}?{'&'.join(words)}"
        return direct(url, lambda: claimed(client), stack)
    if kind == "webhook":
        hook = Hook()
        stack.callback(hook.close)
        destination = hook.open()
        return Place(
            stack.enter_context(Direct(destination)),
            lambda: [json.loads(body) for _, body in hook.accepted],
            destination,
        )
    cache, storage = request.getfixturevalue("servers")
    store = stack.enter_context(redis.Redis.from_url(cache.url, decode_responses=True))
    store.flushall()
    if kind == "stream":
        found_in: Any = store.xrange

        def read() -> list[dict[str, Any]]:
            return [json.loads(fields["message"]) for _, fields in found_in("orders")]

        return direct(f"{cache.url}?stream=orders", read, stack)
    if kind == "channel":
        pubsub: Any = store.pubsub
        listener = stack.enter_context(pubsub(ignore_subscribe_messages=True))
        listener.subscribe("orders")
        listener.get_message(timeout=5)

        def listen() -> list[dict[str, Any]]:
            rows = []
            while (heard := listener.get_message(timeout=0.2)) is not None:
                rows.append(json.loads(heard["data"]))
            return rows

        return direct(f"{cache.url}?channel=orders", listen, stack)
    if kind == "objects":
        before = set(storage.files("orders"))

        def objects() -> list[dict[str, Any]]:
            found = storage.files("orders")
            rows = [row for name in found.keys() - before for row in messages(name, found[name])]
            return sorted(rows, key=lambda row: row["published_at"])

        return direct("s3://orders/x", objects, stack)
    return direct(f"file://{place}?format={kind}", files(place), stack)


def direct(url: str, read: Read, stack: ExitStack) -> Place:
    destination = open_destination(url, queue="orders")
    return Place(stack.enter_context(Direct(destination)), read, destination)


KINDS = [
    "client",
    "transport",
    "memory",
    "other database",
    "stream",
    "channel",
    "jsonl",
    "parquet",
    "objects",
    "webhook",
]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield make(request.param, stack, tmp_path / "place", request)


def test_every_transport_conforms(place: Place) -> None:
    publish = place.transport.publish

    # What is published arrives, whole, with an id.
    payload = {"text": 'é"\\\n\x01\u2028', "n": [1, 2.5, None, True, 2**40], "o": {"": {}}}
    publish(
        "orders",
        payload,
        headers={"type": "paid", "n": 1, "flag": False},
        sender="shop",
        correlation_id="c",
        group_key="g",
    )
    (row,) = place.read()
    assert row["payload"] == payload
    assert row["headers"] == {"type": "paid", "n": 1, "flag": False}
    assert (row["topic"], row["sender"]) == ("orders", "shop")
    assert (row["correlation_id"], row["group_key"]) == ("c", "g")
    assert isinstance(row["id"], int)

    # In order, with unique ids; payloads are any JSON.
    for number in range(5):
        publish("orders", number, priority=0, expires_in=timedelta(hours=1))
    publish("orders", None)
    rows = place.read()[-6:]
    assert [row["payload"] for row in rows] == [*range(5), None]
    assert len({row["id"] for row in rows}) == 6
    assert rows[0]["headers"] == {}

    # A value that JSON cannot represent is refused, and changes nothing.
    def publish_a_set() -> None:
        publish("orders", {1, 2})
        place.read()  # what is collected is refused when it is sent

    with pytest.raises((TypeError, pgq.PublishFailed)):
        publish_a_set()
    publish("orders", "last")
    assert place.read()[-1]["payload"] == "last"


def test_every_destination_conforms(place: Place, request: pytest.FixtureRequest) -> None:
    destination = place.destination
    if destination is None:
        return
    now = pgq.MemoryClient()._clock()

    def record(id: int) -> Record:
        return Record(1, id, "orders", 0, "{}", str(id), now)

    records = [record(id) for id in range(1, 8)]
    assert destination.send("batch 1", records[:4]) == {}
    rows = place.read()
    assert [row["id"] for row in rows] == [1, 2, 3, 4] or request.node.name.endswith("[webhook]")
    # A repeated batch: transports that keep batches store it once; others have ids.
    assert destination.send("batch 1", records[:4]) == {}
    again = place.read()
    if destination.keeps_batches:
        assert [row["id"] for row in again] in ([1, 2, 3, 4], [])  # a channel forgets
    assert {row["id"] for row in again} <= {1, 2, 3, 4}
    assert destination.send("batch 2", records[4:]) == {}
    assert {row["id"] for row in [*rows, *place.read()]} == set(range(1, 8))
    assert "://" in destination.label
    assert destination.batch_size > 0
    assert destination.linger >= 0


def test_the_queue_in_memory_delivers_as_the_database_does(client: pgq.PooledClient) -> None:
    """The same calls on both have the same results."""

    def story(queue: Any) -> list[Any]:
        results: list[Any] = []
        queue.create_queue("orders", max_attempts=2, backoff=timedelta(microseconds=1))
        queue.subscribe("big", "orders.*", {"payload.amount": {"$gt": 10}})
        results.append(queue.subscribe("big", "orders.*"))
        queue.publish("orders", 1)
        queue.publish("orders", 2, priority=5)
        queue.publish("orders", 3, headers={"type": "paid"})
        queue.publish("orders.new", {"amount": 5})
        queue.publish("orders.new", {"amount": 15.5})
        queue.publish("orders", 4, delay=timedelta(hours=1))
        results.append([message.payload for message in queue.claim("big", n=9)])
        results.append([message.payload for message in queue.claim("orders", {"type": "paid"})])
        with queue.claim("orders", n=9) as batch:
            results.append([message.payload for message in batch])
            batch.release(batch[1])
        batch = queue.claim("orders", n=9)
        results.append([(message.payload, message.attempt) for message in batch])
        batch.nack(error="no", delay=timedelta(0))
        batch = queue.claim("orders", n=9)
        results.append([(message.payload, message.attempt) for message in batch])
        results.append(batch.nack(error="no"))
        results.append(queue.replay("orders", dry_run=True))
        results.append(queue.replay("orders"))
        results.append([message.payload for message in queue.claim("orders", n=9)])
        for number in range(3):
            queue.publish("orders", number, group_key="g")
        for _ in range(3):
            with queue.claim("orders", n=9) as batch:
                results.append([message.payload for message in batch])
        with pytest.raises(pgq.NoQueue):
            queue.publish("nowhere", 1)
        with pytest.raises(pgq.QueueNotFound):
            queue.claim("nowhere")
        with pytest.raises(pgq.LeaseLost):
            queue.ack(12345)
        with pytest.raises(pgq.InvalidFilter):
            queue.claim("orders", {"a": {"$no": 1}})
        same = [queue.publish("orders", 1, dedup_key="k") for _ in range(2)]
        results.append(same[0] == same[1])
        handled: list[Any] = []
        pgq.Consumer(
            queue,
            "orders",
            lambda message: handled.append(message.payload),
            drain=True,
            notifications=False,
            maintain=False,
        ).run(signals=False)
        results.append(handled)
        results.append(queue.discard("orders"))
        queue.create_queue("aside")
        ids = [queue.publish("orders", number, dedup_key=f"k{number}") for number in range(6)]
        results.append(queue.cancel("orders", ids[0]))
        results.append(queue.cancel("orders", dedup_key="k1"))
        results.append(queue.publish("orders", 7, dedup_key="k1") > ids[-1])
        results.append(queue.reschedule("orders", ids[2], delay=60))
        results.append([m.payload for m in queue.claim("orders", n=1)])
        results.append(queue.reschedule("orders", ids[2], dry_run=True))
        results.append(queue.move("orders", "aside", {"msg": {"id": {"$in": ids[3:]}}}, 2))
        results.append([m.payload for m in queue.claim("aside", n=9)])
        results.append(queue.purge("orders", dry_run=True) == queue.purge("orders"))
        results.append([queue.pause("orders"), len(queue.claim("orders")), queue.resume("orders")])
        return results

    assert story(pgq.MemoryClient()) == story(client)


def test_a_test_turns_the_clock_of_a_queue_in_memory() -> None:
    now = [pgq.MemoryClient()._clock()]
    with pgq.MemoryTransport(clock=lambda: now[0], batch_size=2) as transport:
        transport.create_queue("orders", lease=timedelta(minutes=1), max_attempts=1)
        transport.publish("orders", 1, delay=timedelta(hours=1))
        assert transport.flush() == 1
        assert len(transport.retrieve("orders")) == 0
        now[0] += timedelta(hours=1)
        assert len(transport.retrieve("orders")) == 1
        now[0] += timedelta(minutes=1)
        assert len(transport.retrieve("orders")) == 0
        assert [error for _, error in transport.client.dead_letters("orders")] == ["timeout"]
        seen: list[Any] = []
        transport.publish("orders", 2)
        transport.flush()
        with transport.consumer("orders", lambda message: seen.append(message.payload)):
            while not seen:
                pass
    assert not transport.connected()
    with pytest.raises(RuntimeError, match="closed"):
        transport.client.publish("orders", 3)
