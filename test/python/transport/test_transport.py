"""Publishing to several places, fallbacks, one configuration, single messages, quiet queues."""

from __future__ import annotations

import dataclasses
import json
import logging
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgq
from harness import redis_server
from pgq import Draft
from pgq._shared.transient import is_transient


class Redis:
    """A transport to lists of a Redis server, by its protocol alone."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._replies = self._socket.makefile("rb")

    def publish(self, topic: str, payload: Any, *, headers: dict[str, Any] | None = None) -> int:
        return int(self.call("rpush", topic, json.dumps({"headers": headers, "payload": payload})))

    def call(self, *words: str) -> str:
        parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
        self._socket.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
        reply = self._replies.readline().decode().rstrip()
        if not reply:
            raise ConnectionError("Redis is gone")
        if reply.startswith("$"):
            return self._replies.read(int(reply[1:]) + 2).decode().rstrip()
        return reply[1:]

    def close(self) -> None:
        self._replies.close()
        self._socket.close()


class Directory:
    """A transport to files, one for each message."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def publish(self, topic: str, payload: Any, **options: Any) -> Path:
        file = self.path / f"{topic}-{len(list(self.path.iterdir()))}.json"
        file.write_text(json.dumps(payload))
        return file


class Broken:
    """A transport that fails until it is repaired."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error: Exception | None = error or ConnectionError("away")
        self.calls = 0

    def publish(self, topic: str, payload: Any, **options: Any) -> str:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return "published"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[tuple[Redis, subprocess.Popen[bytes]]]:
    """A real Redis server on a socket."""
    program, environment = redis_server.binary()
    path = tmp_path / "redis.sock"
    with subprocess.Popen(
        [
            program,
            "--port",
            "0",
            "--unixsocket",
            path,
            "--save",
            "",
            "--dir",
            tmp_path,
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    client = Redis(path)
                    break
                except OSError:  # the socket is there before anybody listens
                    assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield client, process
            client.close()
        finally:
            process.terminate()


# Several transports


def test_a_message_goes_to_postgresql_redis_and_a_directory(
    client: pgq.PooledClient, redis: tuple[Redis, Any], tmp_path: Path
) -> None:
    client.create_queue("orders")
    archive = tmp_path / "archive"
    archive.mkdir()
    everywhere = pgq.MultiPublisher([client, redis[0], Directory(archive)])
    results = everywhere.publish("orders", {"amount": 75}, headers={"type": "refund"})
    (message,) = client.claim("orders")
    assert results == [message.id, 1, archive / "orders-0.json"]
    assert message.payload == {"amount": 75}
    kept = json.loads(redis[0].call("lindex", "orders", "0"))
    assert kept == {"headers": message.headers, "payload": {"amount": 75}}
    assert message.headers["type"] == "refund"
    assert json.loads((archive / "orders-0.json").read_text()) == {"amount": 75}


def test_a_transport_that_dies_does_not_stop_the_others(
    client: pgq.PooledClient,
    redis: tuple[Redis, subprocess.Popen[bytes]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    client.create_queue("orders")
    everywhere = pgq.MultiPublisher([redis[0], client])
    everywhere.publish("orders", 1)
    redis[1].kill()
    redis[1].wait()
    with caplog.at_level(logging.ERROR, "pgq"):
        failed, id = everywhere.publish("orders", 2)
    assert isinstance(failed, OSError)
    assert [message.payload for message in client.claim("orders", n=5)] == [1, 2]
    assert isinstance(id, int)
    assert "publishing to Redis failed" in caplog.text


def test_one_transport_needs_no_list() -> None:
    transport = Broken()
    transport.error = None
    assert pgq.MultiPublisher(transport).publish("orders", 1) == ["published"]


def test_only_if_all_transports_fail_publishing_fails() -> None:
    first, second = Broken(), Broken(ValueError("full"))
    everywhere = pgq.MultiPublisher([first, second])
    with pytest.raises(pgq.PublishFailed) as caught:
        everywhere.publish("orders", 1, headers={"a": 1})
    (draft,) = caught.value.drafts
    assert (draft.topic, draft.payload, (draft.headers or {})["a"]) == ("orders", 1, 1)
    assert isinstance(caught.value.__cause__, ValueError)
    assert (first.calls, second.calls) == (1, 1)
    with pytest.raises(pgq.PublishFailed):
        pgq.MultiPublisher([]).publish("orders", 1)


def test_what_each_transport_did_is_counted() -> None:
    good, bad = Broken(), Broken()
    good.error = None
    everywhere = pgq.MultiPublisher([good, bad])
    for _ in range(3):
        everywhere.publish("orders", 1)
    bad.error = None
    everywhere.publish("orders", 1)
    assert [(counter.published, counter.failed) for counter in everywhere.counters] == [
        (4, 0),
        (1, 3),
    ]
    assert str(everywhere.counters[1].error) == "away"


def test_a_required_transport_has_to_take_every_message() -> None:
    first, last = Broken(), Broken()
    first.error = last.error = None
    everywhere = pgq.MultiPublisher([first, last], required=[first])
    assert everywhere.publish("orders", 1) == ["published"] * 2
    last.error = ConnectionError("away")
    assert everywhere.publish("orders", 2)[0] == "published"
    first.error, last.error = ConnectionError("down"), None
    with pytest.raises(pgq.PublishFailed) as caught:
        everywhere.publish("orders", 3)
    assert str(caught.value.__cause__) == "down"
    assert last.calls == 3  # it is tried all the same
    with pytest.raises(ValueError, match="among"):
        pgq.MultiPublisher([first], required=[last])


TOML = """
[development]
transports = ["file://${SPOOL}?compression=none"]

[test]
transports = ["memory:"]

[production]
transports = [
    { url = "${DATABASE_URL}", required = true, batch_timeout = 0.05, default_priority = 7 },
    "file://${SPOOL}?compression=none",
]
"""


@pytest.fixture
def toml(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "pgq.toml"
    file.write_text(TOML)
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    words = [f"{name}={value}" for name, value in given.items() if name != "dbname"]
    monkeypatch.setenv("DATABASE_URL", f"postgresql:///{given['dbname']}?{'&'.join(words)}")
    monkeypatch.setenv("SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("PGQ_CONFIG", str(file))
    return file


def test_an_environment_has_its_transports(
    toml: Path, client: pgq.PooledClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_queue("orders")
    spool = toml.parent / "spool"
    with pgq.MultiPublisher.configured() as publisher:  # development
        publisher.publish("orders", 1)
    assert [json.loads(file.read_text())["payload"] for file in spool.rglob("*.jsonl")] == [1]
    with pgq.MultiPublisher.configured("test") as publisher:
        publisher.publish("orders", 2)
        memory = publisher.counters[0].transport
        assert [message.payload for message in memory.retrieve("orders")] == [2]
    monkeypatch.setenv("PGQ_ENV", "production")
    with pgq.MultiPublisher.configured() as publisher:
        assert [counter.required for counter in publisher.counters] == [True, False]
        publisher.publish("orders", 3)
    (message,) = client.claim("orders", n=5)
    assert (message.payload, message.priority) == (3, 7)
    assert len(list(spool.rglob("*.jsonl"))) == 2
    monkeypatch.setenv("PGQ_TRANSPORTS", "!memory: memory:")
    with pgq.MultiPublisher.configured() as publisher:
        assert [counter.required for counter in publisher.counters] == [True, False]


async def test_an_environment_for_asyncio(toml: Path, async_client: pgq.AsyncPooledClient) -> None:
    await async_client.create_queue("orders")
    async with await pgq.AsyncMultiPublisher.configured("production") as publisher:
        await publisher.publish("orders", 3)
    assert [message.payload for message in await async_client.claim("orders")] == [3]
    assert len(list((toml.parent / "spool").rglob("*.jsonl"))) == 1


def test_an_unreachable_optional_database_stops_no_other_transport(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "pgq.toml"
    away = '{ url = "postgresql://localhost:1/x", enable_batching = false }'
    file.write_text(f'[production]\ntransports = ["memory:", {away}]\n')
    with pgq.MultiPublisher.configured("production", file) as publisher:
        publisher.counters[1].transport.client._pool.timeout = 0.1
        kept, failed = publisher.publish("orders", 1)
    assert isinstance(kept, int)
    assert isinstance(failed, Exception)


@pytest.mark.parametrize(
    ("text", "error_text"),
    [
        ("[a]", "no environment"),
        ("[development]\ntransports = []", "transports ="),
        ("[development]\nplaces = []", "transports ="),
        ("[development]\ntransports = [3]", "a transport is"),
        ("[development]\ntransports = [{url = 'memory:', size = 3}]", "no such options: size"),
        ("[development]\ntransports = [{url = 'memory:', required = 1}]", "true or false"),
        ("[development]\ntransports = ['s3://${NO_SUCH}']", "NO_SUCH"),
        ("[development]\ntransports = [{url = 'redis://h', batch_size = 3}]", "no options"),
        ("[", "pgq.toml"),
        (None, "PGQ_TRANSPORTS"),
    ],
)
def test_a_wrong_configuration_is_reported(
    tmp_path: Path, text: str | None, error_text: str
) -> None:
    file = tmp_path / "pgq.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=error_text):
        pgq.MultiPublisher.configured(path=file)


def test_transports_come_and_go(tmp_path: Path, client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    archive = Directory(tmp_path)
    everywhere = pgq.MultiPublisher([client])
    everywhere.add(archive)
    assert len(everywhere.publish("orders", 1)) == 2
    everywhere.remove(archive)
    assert len(everywhere.publish("orders", 2)) == 1
    assert len(list(tmp_path.iterdir())) == 1
    assert [message.payload for message in client.claim("orders", n=5)] == [1, 2]


async def test_transports_of_asyncio(async_client: pgq.AsyncPooledClient) -> None:
    class Spool:
        async def publish(self, topic: str, payload: Any, **options: Any) -> str:
            raise ConnectionError("away")

    kept: list[Draft] = []
    await async_client.create_queue("orders")
    spool = pgq.AsyncFallback(Spool(), lambda draft, error: kept.append(draft))
    id, nothing = await pgq.AsyncMultiPublisher([async_client, spool]).publish("orders", 1)
    assert nothing is None
    assert [message.id for message in await async_client.claim("orders")] == [id]
    assert [(draft.topic, draft.payload) for draft in kept] == [("orders", 1)]


# Falling back


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_open_circuit_falls_back_until_the_database_is_tried_again() -> None:
    clock, database, kept = Clock(), Broken(), []

    def keep(draft: Draft, error: Exception) -> str:
        kept.append((draft.payload, type(error)))
        return "kept"

    publisher = pgq.Fallback(database, keep, breaker=pgq.CircuitBreaker(clock=clock))
    for number in range(7):
        assert publisher.publish("orders", number) == "kept"
    assert database.calls == 5  # then it is left alone
    assert [error for _, error in kept] == [ConnectionError] * 5 + [pgq.CircuitOpen] * 2
    clock.now = 29.9
    assert publisher.publish("orders", 7) == "kept"
    assert database.calls == 5
    clock.now, database.error = 30.1, None
    assert publisher.publish("orders", 8) == "published"
    assert publisher.publish("orders", 9) == "published"
    assert [payload for payload, _ in kept] == list(range(8))


def test_failures_far_apart_do_not_open_the_circuit() -> None:
    clock, database = Clock(), Broken()
    breaker = pgq.CircuitBreaker(clock=clock)
    publisher = pgq.Fallback(database, lambda draft, error: None, breaker=breaker)
    for _ in range(10):
        publisher.publish("orders", 1)
        clock.now += 31  # five of them take more than two minutes
    assert database.calls == 10


def test_a_client_without_its_database_falls_back(dsn: str, db: psycopg.Connection) -> None:
    kept: list[Draft] = []
    breaker = pgq.CircuitBreaker(failures=1)
    with pgq.connect(dsn, breaker=breaker) as client:
        client.create_queue("orders")
        publisher = pgq.Fallback(client, lambda draft, error: kept.append(draft))
        assert publisher.publish("orders", 1, priority=3)
        with suppress(psycopg.OperationalError), breaker.guard(is_transient):
            raise psycopg.OperationalError("away")
        assert publisher.publish("orders", 2, priority=3) is None
        assert kept == [Draft(topic="orders", payload=2, priority=3)]
        assert [message.payload for message in client.claim("orders", n=5)] == [1]


def test_what_the_database_refuses_is_raised(client: pgq.PooledClient) -> None:
    publisher = pgq.Fallback(client, lambda draft, error: pytest.fail("no fallback cures it"))
    with pytest.raises(pgq.NoQueue):
        publisher.publish("nowhere", 1)
    client.create_queue("orders")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        publisher.publish("orders", 1, headers={"list": []})


# One configuration


def test_a_configuration_has_the_agreed_options_and_defaults() -> None:
    assert dataclasses.asdict(pgq.TransportConfig()) == {
        "database_url": "",
        "connection_pool_size": 10,
        "enable_batching": True,
        "batch_size": 100,
        "batch_timeout": timedelta(seconds=5),
        "default_priority": 0,
        "enable_delayed_processing": True,
        "max_processing_attempts": 3,
        "dead_letter_queue_enabled": True,
        "retrieval_limit": 100,
        "enable_content_routing": True,
    }


def test_a_transport_batches_and_follows_its_configuration(
    dsn: str, db: psycopg.Connection
) -> None:
    config = pgq.TransportConfig(
        database_url=dsn, connection_pool_size=3, batch_size=3, default_priority=4,
        max_processing_attempts=7, retrieval_limit=2, dead_letter_queue_enabled=False,
    )  # fmt: skip
    with pgq.Transport(config) as transport:
        assert transport.connected()
        assert transport.client._pool.max_size == 3
        transport.create_queue("orders")
        policy = db.execute("select max_attempts, on_expiry from pgq.queue").fetchall()
        assert policy == [(7, "discard")]
        assert transport.publish("orders", 0) is None
        transport.publish("orders", 1)
        assert len(transport.retrieve("orders")) == 0  # they wait for a third
        transport.publish("orders", 2, priority=9, delay=timedelta(milliseconds=1))
        time.sleep(0.01)
        taken = transport.retrieve("orders")
        assert len(taken) == 2
        assert {message.priority for message in taken} <= {4, 9}
        taken.release()
        db.execute("call pgq.maintain()")  # what is due is ready now
        assert len(transport.retrieve("orders", n=3)) == 3
        transport.publish("orders", 3)
        assert transport.flush() == 1
        seen: list[Any] = []
        transport.publish("orders", 4)
    with pgq.Transport(config, enable_batching=False) as transport:  # 4 was published by the end
        transport.consumer("orders", lambda message: seen.append(message.payload), drain=True).run()
        assert seen == [3, 4]
        id = transport.publish("orders", 5)
        assert [message.id for message in transport.retrieve("orders")] == [id]
    assert not transport.connected()


def test_a_batch_timeout_publishes_the_waiting_messages(dsn: str) -> None:
    with pgq.Transport(database_url=dsn, batch_timeout=timedelta(milliseconds=50)) as transport:
        transport.create_queue("orders")
        transport.publish("orders", 1)
        deadline = time.monotonic() + 20
        while not transport.retrieve("orders"):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_what_a_configuration_excludes_is_refused(dsn: str) -> None:
    config = pgq.TransportConfig(
        database_url=dsn, enable_delayed_processing=False, enable_content_routing=False
    )
    with pgq.Transport(config) as transport:
        transport.create_queue("orders")
        with pytest.raises(ValueError, match="delayed"):
            transport.publish("orders", 1, delay=timedelta(seconds=1))
        with pytest.raises(ValueError, match="content routing"):
            transport.retrieve("orders", {"type": "paid"})
        with pytest.raises(ValueError, match="content routing"):
            transport.consumer("orders", print, {"type": "paid"})


# Single messages


def test_two_listeners_race_for_a_message_and_one_gets_it(dsn: str) -> None:
    with pgq.connect(dsn) as first, pgq.connect(dsn) as second:
        first.create_queue("orders")
        ids = first.publish_batch("orders", list(range(40)))
        start = threading.Barrier(2)
        taken: dict[str, list[int]] = {"first": [], "second": []}

        def listen(name: str, client: pgq.PooledClient) -> None:
            for id in ids:
                start.wait()
                with client.claim_by_id("orders", id) as batch:
                    taken[name] += [message.id for message in batch]

        threads = [
            threading.Thread(target=listen, args=pair)
            for pair in (("first", first), ("second", second))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken["first"] + taken["second"]) == ids  # each once
        assert len(first.claim_by_id("orders", ids[0])) == 0  # it is done


def test_a_message_is_claimed_from_the_midst_of_others(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    ids = client.publish_batch("orders", list(range(1000)))
    (message,) = client.claim_by_id("orders", ids[500], lease=timedelta(hours=1))
    assert message.payload == 500
    assert message.lease_until is not None
    assert message.lease_until - message.published_at > timedelta(minutes=50)
    assert len(client.claim("orders", n=1000)) == 999


# Quiet queues


@pytest.mark.unpooled("LISTEN needs a session")
@pytest.mark.parametrize(
    ("filter", "other", "meant"),
    [
        ({"msg.priority": {"$gte": 5}}, {"priority": 1}, {"priority": 7}),
        ({"msg.recipient": "bank"}, {"recipient": "shop"}, {"recipient": "bank"}),
        ({"class": "Alert"}, {"headers": {"class": "Info"}}, {"headers": {"class": "Alert"}}),
    ],
)
def test_a_consumer_is_not_woken_by_messages_that_its_filter_excludes(
    client: pgq.PooledClient,
    db: psycopg.Connection,
    filter: dict[str, Any],
    other: dict[str, Any],
    meant: dict[str, Any],
) -> None:
    client.create_queue("events.all", mode="archive")  # somebody takes the others
    client.subscribe("meant", "events.#", filter)
    db.execute(f"listen {client.channel('meant')}")
    db.execute("select pgq.wait_begin('meant', 'sleeper')")
    for _ in range(20):
        client.publish("events.all", 1, **other)
    assert list(db.notifies(timeout=0.3)) == []
    client.publish("events.all", 2, **meant)
    (heard,) = db.notifies(timeout=5, stop_after=1)
    assert heard.channel == client.channel("meant")
    assert [message.payload for message in client.claim("meant", n=5)] == [2]
