"""Relays to real servers that stop and start, and in processes that are killed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
import redis

import pgq
from harness.command import Command
from harness.object_storage import CREDENTIALS, ObjectStorage, messages
from harness.redis_server import RedisServer, free_port
from harness.server import Server
from harness.webhook import Hook, until
from pgq.relay import Busy, Destination, Memory, Record, Relay, open_destination


def quick(failures: int = 5, reset: float = 0.2) -> pgq.CircuitBreaker:
    """Return a circuit breaker that a test can wait for."""
    return pgq.CircuitBreaker(failures=failures, reset=timedelta(seconds=reset))


def reported(client: pgq.PooledClient, column: str) -> Any:
    """Return a column of the only relay, if it has reported."""
    rows = client.relays()
    return dict(rows[0])[column] if rows else None


@contextmanager
def running(relay: Relay) -> Iterator[Relay]:
    """Run a relay beside the block."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            relay.run(signals=False)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield relay
    finally:
        relay.stop()
        thread.join(30)
    assert not thread.is_alive()
    if caught:
        raise caught[0]


def drain(client: pgq.PooledClient, queue: str, destination: Destination, **options: Any) -> Relay:
    """Forward all ready messages."""
    relay = Relay(client, queue, destination, drain=True, **options)
    relay.run(signals=False)
    return relay


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.close()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def store(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as store:
        store.flushall()
        yield store


@pytest.fixture(scope="module")
def storage() -> Iterator[ObjectStorage]:
    with pytest.MonkeyPatch.context() as patch, ObjectStorage() as storage:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", storage.endpoint)
        yield storage


def entries(store: redis.Redis, stream: str) -> list[dict[str, Any]]:
    found: Any = store.xrange(stream)
    return [json.loads(fields["message"]) for _, fields in found]


# Redis


def test_a_stream_has_every_message_as_it_was_published(
    client: pgq.PooledClient, redis_server: RedisServer, store: redis.Redis, db: psycopg.Connection
) -> None:
    client.subscribe("audit", "orders.#")
    id = client.publish(
        "orders.new",
        {"text": 'é"\\\n\u2028', "list": [None, True]},
        headers={"type": "paid"},
        priority=3,
        sender="shop",
        correlation_id="c",
        group_key="g",
    )
    # More digits than a binary number has.
    db.execute("select pgq.publish('orders.new', '1.000000000000000000001')")
    client.publish_batch("orders.new", list(range(1200)))
    relay = drain(client, "audit", open_destination(redis_server.url, queue="audit"))
    assert (relay.forwarded, relay.refused, relay.failures) == (1202, 0, 0)
    raw: Any = store.xrange("audit")
    assert '"payload":1.000000000000000000001,' in raw[1][1]["message"]
    assert raw[0][1]["id"] == str(id)
    assert raw[0][1]["topic"] == "orders.new"
    first, _, *others = entries(store, "audit")
    assert first.pop("published_at")
    assert first == {
        "id": id,
        "topic": "orders.new",
        "priority": 3,
        "headers": {"type": "paid"},
        "payload": {"text": 'é"\\\n\u2028', "list": [None, True]},
        "sender": "shop",
        "recipient": None,
        "reply_to": None,
        "correlation_id": "c",
        "group_key": "g",
        "expires_at": None,
    }
    assert [entry["payload"] for entry in others] == list(range(1200))
    assert client.claim("audit", n=10).messages == []
    assert client.relays() == []  # the relay has removed its record


def test_a_channel_has_every_message(
    client: pgq.PooledClient, redis_server: RedisServer, store: redis.Redis
) -> None:
    client.create_queue("audit")
    client.publish_batch("audit", [1, 2, 3])
    pubsub: Any = store.pubsub
    with pubsub() as listener:
        listener.subscribe("news")
        listener.get_message(timeout=5)
        drain(client, "audit", open_destination(f"{redis_server.url}?channel=news", queue="audit"))
        heard: list[Any] = [listener.get_message(timeout=5) for _ in range(3)]
    assert [json.loads(message["data"])["payload"] for message in heard] == [1, 2, 3]
    assert store.exists("audit") == 0


def test_a_batch_that_was_not_acknowledged_is_in_the_stream_once(
    client: pgq.PooledClient, redis_server: RedisServer, store: redis.Redis
) -> None:
    class Killed(BaseException):
        pass

    class Dying:
        """Delivers the batch, and kills the relay before the acknowledgement."""

        keeps_batches: ClassVar[bool] = True
        label, batch_size, linger = "dying", 4, 0.0

        def send(self, batch: str, records: Sequence[Record]) -> Mapping[int, str]:
            target.send(batch, records)
            raise Killed

        def close(self) -> None:
            pass

    client.create_queue("audit")
    client.publish_batch("audit", list(range(10)))
    target = open_destination(redis_server.url, queue="audit")
    for _ in range(3):
        with pytest.raises(Killed):
            drain(client, "audit", Dying())
    assert len(entries(store, "audit")) == 4
    relay = drain(client, "audit", target)
    assert relay.forwarded == 10
    assert [entry["payload"] for entry in entries(store, "audit")] == list(range(10))


def test_a_batch_of_a_killed_relay_is_not_given_back_unsent(
    client: pgq.PooledClient, redis_server: RedisServer, store: redis.Redis
) -> None:
    class Killed(BaseException):
        pass

    client.create_queue("audit")
    client.publish_batch("audit", [1, 2])
    target = open_destination(redis_server.url, queue="audit")
    dying, send = Memory(), target.send

    def arrive(batch: str, records: Sequence[Record]) -> Mapping[int, str]:
        send(batch, records)
        raise Killed

    dying.send = arrive  # type: ignore[method-assign]
    with pytest.raises(Killed):
        drain(client, "audit", dying)
    busy = Memory()
    busy.error = Busy("later", delay=60)
    with running(Relay(client, "audit", busy)):
        until(lambda: busy.calls > 0)
    client.publish("audit", 3)
    drain(client, "audit", target)
    assert [entry["payload"] for entry in entries(store, "audit")] == [1, 2, 3]


def test_a_full_stream_lets_the_relay_rest(
    client: pgq.PooledClient, redis_server: RedisServer, store: redis.Redis
) -> None:
    client.create_queue("audit")
    client.publish_batch("audit", list(range(10)))
    destination = open_destination(f"{redis_server.url}?limit=4", queue="audit")
    relay = Relay(client, "audit", destination, batch_size=2)
    with running(relay):
        until(lambda: reported(client, "error") == "the stream audit is full", "resting")
        assert store.xlen("audit") == 4
        assert relay.failures == 0
        store.xtrim("audit", maxlen=0, approximate=False)
        until(lambda: store.xlen("audit") == 4, "going on")
    store.delete("audit")
    drain(client, "audit", open_destination(f"{redis_server.url}?keep=1", queue="audit"))
    assert [entry["payload"] for entry in entries(store, "audit")] == [8, 9]


def test_a_relay_survives_a_crash_of_redis(
    client: pgq.PooledClient, db: psycopg.Connection, tmp_path: Path
) -> None:
    client.create_queue("audit", max_attempts=1)
    state = "select relay from pgq.queue_stats"
    with RedisServer(tmp_path) as server:
        destination = open_destination(server.url, queue="audit")
        relay = Relay(client, "audit", destination, breaker=quick(2, 0.5))
        with running(relay):
            client.publish("audit", 1)
            until(lambda: relay.forwarded == 1)
            assert db.execute(state).fetchall() == [("closed",)]
            server.kill()
            client.publish("audit", 2)
            until(lambda: db.execute(state).fetchall() == [("open",)], "opening")
            client.publish("audit", 3)
            (row,) = client.relays()
            assert row["destination"] == server.url
            assert "ConnectionError" in (row["error"] or "")
            assert row["alive"]
            server.start()
            until(lambda: relay.forwarded == 3, "recovering")
            until(lambda: db.execute(state).fetchall() == [("closed",)], "closing")
            assert reported(client, "error") is None
        with redis.Redis.from_url(server.url, decode_responses=True) as store:
            assert [entry["payload"] for entry in entries(store, "audit")] == [1, 2, 3]
    assert relay.failures >= 2
    assert db.execute("select dead, leased, ready from pgq.queue_stats").fetchall() == [(0, 0, 0)]


# Files and objects


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_files_are_written_whole_and_once(
    client: pgq.PooledClient, tmp_path: Path, format: str
) -> None:
    client.create_queue("audit")
    ids = client.publish_batch("audit", [{"n": n} for n in range(25)], headers=[{"a": 1}] * 25)
    destination = open_destination(f"file://{tmp_path}/x%20y?format={format}", queue="audit")
    drain(client, "audit", destination, batch_size=10)
    files = sorted((tmp_path / "x y").rglob("*.*"))
    assert len(files) == 3
    suffix = ".parquet" if format == "parquet" else ".jsonl.gz"
    assert all(file.name.endswith(suffix) for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o644 for file in files)
    assert files[0].name.startswith(f"audit-{ids[0]}-{ids[9]}-")
    found = [row for file in files for row in messages(file.name, file.read_bytes())]
    assert [row["id"] for row in found] == ids
    assert [row["payload"]["n"] for row in found] == list(range(25))
    assert found[0]["headers"] == {"a": 1}


def test_a_file_that_was_not_acknowledged_is_replaced_by_itself(
    client: pgq.PooledClient, tmp_path: Path
) -> None:
    client.create_queue("audit")
    client.publish_batch("audit", [1, 2, 3])
    destination = open_destination(f"file://{tmp_path}", queue="audit")
    send = destination.send
    calls = []

    def twice(batch: str, records: Sequence[Record]) -> Mapping[int, str]:
        send(batch, records)
        calls.append([file.read_bytes() for file in tmp_path.rglob("*.gz")])
        if len(calls) < 3:
            raise OSError("the answer was lost")
        return {}

    destination.send = twice  # type: ignore[method-assign]
    drain(client, "audit", destination)
    assert len(calls) == 3
    assert calls[0] == calls[2]
    (file,) = tmp_path.rglob("*.gz")
    assert [row["payload"] for row in messages(file.name, file.read_bytes())] == [1, 2, 3]


def test_a_file_waits_for_a_batch_or_its_time(client: pgq.PooledClient, tmp_path: Path) -> None:
    client.create_queue("audit")
    destination = open_destination(f"file://{tmp_path}?compression=none", queue="audit")
    relay = Relay(client, "audit", destination, batch_size=4, linger=timedelta(hours=1))
    client.publish("audit", 1)
    with running(relay):
        until(lambda: client.relays() != [])
        client.publish_batch("audit", [2, 3])
        time.sleep(0.3)
        assert list(tmp_path.rglob("*.jsonl")) == []
        client.publish("audit", 4)
        until(lambda: list(tmp_path.rglob("*.jsonl")) != [], "a file")
        until(lambda: client.queue_stats()[0]["leased"] == 0, "its acknowledgement")
    relay = Relay(client, "audit", destination, batch_size=4, linger=timedelta(seconds=0.2))
    with running(relay):
        client.publish("audit", 5)
        until(lambda: len(list(tmp_path.rglob("*.jsonl"))) == 2, "a second file")
    # A group delivers one message at a time, so the relay does not wait for more.
    client.publish_batch("audit", [6, 7, 8], group_key="g")
    relay = Relay(client, "audit", destination, batch_size=4, linger=timedelta(hours=1))
    with running(relay):
        until(lambda: relay.forwarded >= 2, "the group")


def test_a_directory_that_cannot_be_written_to_is_waited_for(
    client: pgq.PooledClient, tmp_path: Path
) -> None:
    client.create_queue("audit", max_attempts=1)
    client.publish("audit", 1)
    place = tmp_path / "place"
    place.write_text("a file where a directory should be")
    relay = Relay(
        client,
        "audit",
        open_destination(f"file://{place}", queue="audit"),
        breaker=quick(1, 0.05),
        linger=timedelta(0),
    )
    with running(relay):
        until(lambda: relay.failures > 5)
        place.unlink()
        until(lambda: relay.forwarded == 1)
    assert [path.suffix for path in place.rglob("*.*")] == [".gz"]


def test_object_storage_refuses_writes_and_stops_for_a_while(
    client: pgq.PooledClient, storage: ObjectStorage
) -> None:
    storage.make_bucket("audit")
    client.create_queue("audit", max_attempts=1)
    destination = open_destination("s3://audit/pre/fix", queue="audit")
    relay = Relay(
        client,
        "audit",
        destination,
        batch_size=5,
        linger=timedelta(0),
        breaker=quick(3, 0.3),
    )
    with running(relay):
        client.publish_batch("audit", [0, 1, 2])
        until(lambda: relay.forwarded == 3)
        storage.refusing = 503
        client.publish_batch("audit", [3, 4])
        until(lambda: reported(client, "circuit") == "open", "opening")
        storage.stop()
        storage.refusing = None
        client.publish_batch("audit", [5])
        time.sleep(0.5)
        storage.start()
        until(lambda: relay.forwarded == 6, "recovering")
    files = storage.files("audit")
    assert all(name.startswith("audit/pre/fix/20") for name in files)
    found = [row for name, data in files.items() for row in messages(name, data)]
    assert sorted(row["payload"] for row in found) == list(range(6))
    assert client.queue_stats()[0]["dead"] == 0


# Another pgq


def test_another_database_has_every_message_once(
    client: pgq.PooledClient, server: Server, template: str
) -> None:
    other = f"{template}_other"
    address = server.create_database(other, template=template)
    url = psycopg.conninfo.conninfo_to_dict(address)
    target = (
        f"postgresql://{url.get('user', '')}:{url.get('password', '')}@/{url['dbname']}"
        f"?host={url['host']}&port={url['port']}"
    )
    try:
        with pgq.connect(address) as there:
            there.create_queue("orders")
            client.subscribe("copy", "#")
            client.create_queue("orders")
            client.create_queue("unknown")
            id = client.publish("orders", {"a": 1.5}, headers={"type": "paid"}, sender="shop")
            ids = client.publish_batch("orders", [1, 2, 3], group_key="g")
            client.publish("unknown", 4)
            destination = open_destination(target, queue="copy")
            assert ":" not in destination.label.removeprefix("postgresql://")
            relay = drain(client, "copy", destination)
            assert (relay.forwarded, relay.refused) == (4, 1)
            first = there.claim("orders", n=9)
            assert [message.payload for message in first] == [{"a": 1.5}, 1]
            assert first[0].headers == {"type": "paid", "pgq_id": id}
            assert first[1].headers == {"pgq_id": ids[0]}
            assert first[0].sender == "shop"
            first.ack()
            record = Record(0, id, "orders", 0, "{}", "1", first[0].published_at)
            destination.send("again", [record])
            destination.close()
            rest = there.claim("orders", n=9)
            assert [message.payload for message in rest] == [2]
            rest.ack()
    finally:
        server.drop_database(other)


# Webhooks


def test_a_webhook_gets_signed_messages(client: pgq.PooledClient, hook: Hook) -> None:
    client.create_queue("hooks")
    ids = client.publish_batch("hooks", [{"n": n} for n in range(20)])
    relay = drain(client, "hooks", hook.open())
    assert relay.forwarded == 20
    assert sorted(payload["n"] for payload in hook.payloads()) == list(range(20))
    for headers, body in hook.accepted:
        id, at = headers["webhook-id"], headers["webhook-timestamp"]
        assert int(id) == json.loads(body)["id"]
        assert abs(int(at) - time.time()) < 60
        signed = hmac.new(b"geheim", f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
        assert headers["webhook-signature"] == "v1," + base64.b64encode(signed).decode()
    assert {int(headers["webhook-id"]) for headers, _ in hook.accepted} == set(ids)


def test_what_a_webhook_refuses_becomes_a_dead_letter_and_nothing_else(
    client: pgq.PooledClient, db: psycopg.Connection, hook: Hook
) -> None:
    client.create_queue("hooks", max_attempts=2, backoff=timedelta(milliseconds=1))
    client.publish_batch("hooks", ["good", "bad", "crash", "fine"])
    hook.answer = lambda body: ({"bad": 422, "crash": 500}.get(body["payload"], 204), {})
    with running(Relay(client, "hooks", hook.open(), breaker=quick(100, 0.1))) as relay:
        until(lambda: relay.forwarded == 2)
        until(lambda: client.replay("hooks", dry_run=True) == 2)
    dead = db.execute("select payload, error, attempts from pgq.dead_letter order by 1").fetchall()
    assert dead == [("bad", "HTTP 422", 2), ("crash", "HTTP 500", 2)]
    assert sorted(hook.payloads()) == ["fine", "good"]


def test_a_webhook_that_is_down_costs_no_message_anything(
    client: pgq.PooledClient, hook: Hook
) -> None:
    client.create_queue("hooks", max_attempts=1)
    relay = Relay(client, "hooks", hook.open(), breaker=quick(1, 0.05))
    with running(relay):
        for number, status in enumerate([401, 404, 429, 500, 502, 503, 301]):
            hook.answer = lambda body, status=status: (status, {})  # type: ignore[misc]
            before = relay.failures
            client.publish("hooks", number)
            until(lambda before=before: relay.failures >= before + 2)  # type: ignore[misc]
            hook.answer = lambda body: (200, {})
            until(lambda number=number: relay.forwarded == number + 1)  # type: ignore[misc]
    assert hook.payloads() == list(range(7))
    assert client.queue_stats()[0]["dead"] == 0


def test_a_webhook_that_asks_for_time_gets_it(client: pgq.PooledClient, hook: Hook) -> None:
    client.create_queue("hooks")
    client.publish("hooks", 1)
    moments: list[float] = []

    def answer(body: Any) -> tuple[int, dict[str, str]]:
        moments.append(time.monotonic())
        return (429, {"retry-after": "1"}) if len(moments) == 1 else (200, {})

    hook.answer = answer
    relay = drain(client, "hooks", hook.open())
    assert (relay.forwarded, relay.failures) == (1, 0)
    assert moments[1] - moments[0] >= 1


def test_a_webhook_that_asks_for_time_when_it_is_tried_again_is_tried_once_more(
    client: pgq.PooledClient, hook: Hook
) -> None:
    client.create_queue("hooks")
    client.publish("hooks", 1)
    answers = [(500, {}), (429, {"retry-after": "1"}), (200, {})]
    hook.answer = lambda body: answers.pop(0)
    relay = Relay(client, "hooks", hook.open(), breaker=quick(1, 0.05))
    with running(relay):
        until(lambda: relay.forwarded == 1)
    assert relay.breaker.state == "closed"


def test_what_was_delivered_is_not_delivered_again_with_the_rest(
    client: pgq.PooledClient, hook: Hook
) -> None:
    client.create_queue("hooks")
    client.publish_batch("hooks", list(range(10)))
    hook.answer = lambda body: (503 if body["payload"] == 7 and hook.calls < 15 else 200, {})
    relay = drain(client, "hooks", hook.open(), breaker=quick(1, 0.05))
    assert relay.failures > 0
    assert sorted(hook.payloads()) == list(range(10))


# Whatever the destination


def test_a_relay_that_rests_gives_its_messages_back_unharmed(
    client: pgq.PooledClient, db: psycopg.Connection, hook: Hook
) -> None:
    client.create_queue("hooks", max_attempts=1)
    client.publish_batch("hooks", [1, 2])
    hook.close()
    relay = Relay(client, "hooks", hook.open(), breaker=quick(2, 60))
    with running(relay):
        until(lambda: relay.breaker.state == "open")
        until(lambda: client.queue_stats()[0]["ready"] == 2, "giving back")
        assert client.queue_stats()[0]["relay"] == "open"
    assert [message.attempt for message in client.claim("hooks", n=5)] == [1, 1]


def test_a_stopped_relay_leaves_a_doubtful_batch_to_its_next_start(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("audit", max_attempts=1)
    client.publish_batch("audit", [1, 2])
    memory = Memory()
    memory.error = ConnectionResetError("who knows")
    relay = Relay(client, "audit", memory, breaker=quick(reset=60))
    with running(relay):
        until(lambda: memory.calls > 0)
    client.publish("audit", 3)
    assert [message.payload for message in client.claim("audit", n=5)] == [3]
    memory.error = None
    drain(client, "audit", memory)
    assert [record.payload for record in memory.records] == [1, 2]


def test_a_refusal_that_the_database_does_not_hear_of_is_not_forgotten(
    client: pgq.PooledClient, db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_queue("audit", max_attempts=1)
    client.publish("audit", 1)
    memory = Memory(refuse={"audit": "no"})
    relay = Relay(client, "audit", memory)

    def fail(*_: Any, **options: Any) -> int:
        relay.stop()
        raise psycopg.OperationalError("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(client, "nack", fail)
        relay.run(signals=False)
    drain(client, "audit", memory)
    assert db.execute("select error from pgq.dead_letter").fetchall() == [("no",)]


def test_a_second_relay_of_the_same_name_waits_for_the_first(client: pgq.PooledClient) -> None:
    client.create_queue("audit")
    first, second = Memory(), Memory()
    one = Relay(client, "audit", first, timeout=timedelta(seconds=2))
    two = Relay(client, "audit", second, timeout=timedelta(seconds=2))
    with running(one):
        until(lambda: client.relays() != [])
        with running(two):
            client.publish("audit", 1)
            until(lambda: one.forwarded == 1)
            time.sleep(2.5)  # longer than one that says nothing would keep the name
            client.publish("audit", 2)
            until(lambda: one.forwarded == 2)
            assert second.records == []
            one.stop()
            client.publish("audit", 3)
            until(lambda: two.forwarded == 1, "taking over")
    assert [record.payload for record in first.records] == [1, 2]
    assert [record.payload for record in second.records] == [3]


def test_groups_keep_their_order_past_refusals(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("other")
    client.subscribe("audit", "#")
    client.alter_queue("audit", max_attempts=2, backoff=timedelta(milliseconds=1))
    for number in range(8):
        client.publish("other" if number == 3 else "audit", number, group_key="abc"[number % 3])
    memory = Memory(refuse={"other": "no"})
    with running(Relay(client, "audit", memory)) as relay:
        until(lambda: relay.forwarded == 7)
    seen = [record.payload for record in memory.records]
    for rest in range(3):
        of_group = [number for number in seen if number % 3 == rest]
        assert of_group == sorted(of_group)
    assert db.execute("select payload, error from pgq.dead_letter").fetchall() == [(3, "no")]


def test_a_lost_connection_does_not_end_a_relay(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("audit")
    memory = Memory()
    relay = Relay(client, "audit", memory)
    with running(relay):
        for number in range(3):
            client.publish("audit", number)
            until(lambda number=number: relay.forwarded == number + 1)  # type: ignore[misc]
            db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
    assert [record.payload for record in memory.records] == [0, 1, 2]


def test_a_destination_of_ones_own_may_ask_for_time(client: pgq.PooledClient) -> None:
    class Slow(Memory):
        def send(self, batch: str, records: Sequence[Record]) -> Mapping[int, str]:
            if self.calls == 0:
                self.calls += 1
                raise Busy("a moment", delay=0.01)
            return super().send(batch, records)

    client.create_queue("audit")
    client.publish("audit", 1)
    slow = Slow()
    assert drain(client, "audit", slow).failures == 0
    assert [record.payload for record in slow.records] == [1]


@pytest.mark.parametrize(
    ("url", "error_text"),
    [
        ("somewhere", "not an address"),
        ("redis://h/0?limit=many", "number"),
        ("redis://h/0?channel=c&limit=3", "stream"),
        ("file:///x?format=xml", "format"),
        ("file:///x?compression=zip", "compression"),
        ("file://x/y", "file:///"),
        ("s3:///x", "bucket"),
        ("https://x/y", "secret"),
    ],
)
def test_a_wrong_address_is_reported_immediately(url: str, error_text: str) -> None:
    with pytest.raises(ValueError, match=error_text):
        open_destination(url)


def test_addresses_are_shown_without_secrets() -> None:
    for url, label in [
        ("redis://user:word@host:1/0?stream=s", "redis://host:1/0"),
        ("postgresql://user:word@host/db?sslmode=require", "postgresql://host/db"),
        ("https://user:word@host/services/token?key=1", "https://host"),
    ]:
        assert open_destination(url, secret="x").label == label


# The command line


def test_the_command_relays_and_is_listed(
    pgq_run: Command, client: pgq.PooledClient, tmp_path: Path, dsn: str
) -> None:
    client.create_queue("orders")
    output = pgq_run(
        "relay",
        "--queue",
        "archive",
        "--subscribe",
        "orders",
        "--drain",
        "--to",
        f"file://{tmp_path}",
    )
    assert output.code == 0, output.err
    client.publish("orders", 1)
    output = pgq_run("relay", "--queue", "archive", "--drain", "--to", f"file://{tmp_path}")
    assert "1 forwarded, 0 refused, 0 failures" in output.err
    assert len(list(tmp_path.rglob("*.gz"))) == 1
    assert pgq_run("relay", "--queue", "archive", "--to", "nowhere").code == 2
    assert pgq_run("relay", "--queue", "archive", "--to", "https://x").code == 2
    assert pgq_run("relay", "--queue", "missing", "--to", "memory:").code == 1
    process = subprocess.Popen(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "pgq",
            "relay",
            "--queue",
            "archive",
            "--to",
            f"redis://127.0.0.1:{free_port()}/0",
            "--failures",
            "1",
        ],
        env=os.environ | {"PGQ_DSN": dsn},
        stderr=subprocess.PIPE,
        text=True,
    )
    client.publish("orders", 2)
    until(lambda: [row["circuit"] for row in client.relays()] == ["open"], "opening")
    output = pgq_run("relays")
    assert "archive" in output.out
    assert "open" in output.out
    (row,) = pgq_run("stats", "archive", "--json").rows
    assert row["relay"] == "open"
    (found,) = (row for row in client.findings() if row.finding.startswith("relay"))
    assert (found.queue, found.finding) == ("archive", "relay_fails")
    assert "redis://127.0.0.1" in found.detail
    assert "when the destination answers" in found.cure
    process.send_signal(signal.SIGTERM)
    assert "0 forwarded" in process.communicate(timeout=30)[1]
    assert process.returncode == 0
    assert client.relays() == []
    assert not any(row.finding.startswith("relay") for row in client.findings())
