"""Several transports: published messages are stored, have the same id, and are counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

import pgq
from pgq.relay import Direct, Memory
from pgq.transports.registry import transport_names


@pytest.fixture
def address(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The test's database as an address, named by DATABASE_URL."""
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    words = [f"{name}={value}" for name, value in given.items() if name != "dbname"]
    url = f"postgresql:///{given['dbname']}?{'&'.join(words)}"
    monkeypatch.setenv("DATABASE_URL", url)
    return url


def configured(tmp_path: Path, *transports: str) -> pgq.MultiPublisher:
    file = tmp_path / "pgq.toml"
    file.write_text(f"[production]\ntransports = [{', '.join(transports)}]\n")
    return pgq.MultiPublisher.configured("production", file)


REQUIRED = '{ url = "${DATABASE_URL}", required = true }'
OPTIONAL = '{ url = "${DATABASE_URL}" }'


# What is required


def test_a_required_database_has_every_published_message(
    tmp_path: Path, address: str, client: pgq.PooledClient
) -> None:
    client.create_queue("orders")
    with configured(tmp_path, REQUIRED, '"memory:"') as publisher:
        publisher.publish("orders", 1)
        assert [message.payload for message in client.claim("orders", n=5)] == [1]
        with pytest.raises(pgq.PublishFailed, match="nobody"):
            publisher.publish("nobody", 2)
        database, memory = publisher.counters
        assert (database.published, database.failed, database.waiting) == (1, 1, 0)
        assert (memory.published, memory.failed) == (2, 0)


def test_a_required_publisher_has_every_published_message(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    with pgq.Publisher(client) as required:
        everywhere = pgq.MultiPublisher([required], required=[required])
        everywhere.publish("orders", 1)
        assert len(client.claim("orders")) == 1
        with pytest.raises(pgq.PublishFailed):
            everywhere.publish("nobody", 2)
        assert (everywhere.counters[0].published, everywhere.counters[0].failed) == (1, 1)


def test_the_loss_of_a_required_database_is_reported(
    tmp_path: Path, address: str, client: pgq.PooledClient
) -> None:
    client.create_queue("orders")
    with configured(tmp_path, REQUIRED, '"memory:"') as publisher:
        publisher.counters[0].transport.client.close()
        with pytest.raises(pgq.PublishFailed):
            publisher.publish("orders", 1)
        assert (publisher.counters[0].published, publisher.counters[0].failed) == (0, 1)


# What is batched


def test_what_is_batched_is_counted_when_it_is_stored(
    tmp_path: Path, address: str, client: pgq.PooledClient
) -> None:
    client.create_queue("orders")
    with configured(tmp_path, OPTIONAL, '"memory:"') as publisher:
        for number in range(3):
            assert publisher.publish("orders", number)[0] is None
        counter = publisher.counters[0]
        assert (counter.published, counter.failed, counter.waiting) == (0, 0, 3)
        publisher.publish("nobody", 4)
        publisher.flush()
        assert (counter.published, counter.failed, counter.waiting) == (3, 1, 0)
        assert isinstance(counter.error, pgq.PgqError)
        publisher.publish("nobody", 5)
    assert (counter.published, counter.failed) == (3, 2)


def test_a_batch_that_no_transport_has_is_reported_at_the_end(
    tmp_path: Path, address: str, client: pgq.PooledClient
) -> None:
    publisher = configured(tmp_path, OPTIONAL)
    publisher.publish("nobody", 1)
    with pytest.raises(pgq.PublishFailed, match="nobody"):
        publisher.close()
    assert (publisher.counters[0].published, publisher.counters[0].failed) == (0, 1)


class Away:
    def publish(self, topic: str, payload: Any, **options: Any) -> None:
        raise ConnectionError("away")


def test_a_message_that_no_other_transport_has_does_not_wait_in_a_batch(
    client: pgq.PooledClient,
) -> None:
    client.create_queue("orders")
    with pgq.Publisher(client) as batching:
        everywhere = pgq.MultiPublisher([batching, Away()])
        everywhere.publish("orders", 1)
        assert len(client.claim("orders")) == 1
        with pytest.raises(pgq.PublishFailed):
            everywhere.publish("nobody", 2)


def test_what_was_refused_before_stops_no_later_message(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    memory = Direct(Memory())
    with pgq.Publisher(client, size=1, delay=timedelta(hours=1)) as batching:
        everywhere = pgq.MultiPublisher([batching, memory])
        everywhere.publish("nobody", 1)
        everywhere.publish("orders", 2)
        counter = everywhere.counters[0]
        assert (counter.published, counter.failed, counter.waiting) == (1, 1, 0)
    assert [message.payload for message in client.claim("orders", n=5)] == [2]


# One id, one time


def test_all_copies_have_one_id_and_one_time(client: pgq.PooledClient, tmp_path: Path) -> None:
    client.create_queue("orders")
    first, second = Memory(), Memory()
    everywhere = pgq.MultiPublisher([client, Direct(first), Direct(second)])
    everywhere.publish("orders", {"amount": 75}, headers={"type": "paid"})
    (message,) = client.claim("orders")
    (one,), (other,) = first.records, second.records
    assert message.headers == one.headers == other.headers
    assert message.headers["type"] == "paid"
    assert UUID(message.headers["uuid"])
    moment = datetime.fromisoformat(message.headers["published_at"])
    assert one.published_at == other.published_at == moment
    assert one.id == other.id
    assert abs(message.published_at - moment) < timedelta(minutes=1)


def test_an_id_of_the_publisher_is_kept(client: pgq.PooledClient) -> None:
    mine = "0b54d2ea-5bd7-4c29-b7e9-5a22c1a2b3c4"
    copies = Memory()
    pgq.MultiPublisher([Direct(copies)]).publish("orders", 1, headers={"uuid": mine})
    assert copies.records[0].headers["uuid"] == mine
    assert copies.records[0].id == UUID(mine).int >> 65


# By name


class Telegraph:
    """A transport of a user's own."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.options = options
        self.sent: list[Any] = []
        self.closed = False

    def publish(self, topic: str, payload: Any, **options: Any) -> int:
        self.sent.append((topic, payload))
        return len(self.sent)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def telegraph() -> Iterator[None]:
    pgq.register_transport("telegraph", Telegraph)
    yield
    pgq.unregister_transport("telegraph")


@pytest.mark.usefixtures("telegraph")
def test_a_transport_of_ones_own_has_a_name(tmp_path: Path) -> None:
    with configured(
        tmp_path, '{ url = "telegraph://office", required = true, speed = 12 }'
    ) as publisher:
        assert publisher.publish("orders", 1) == [1]
        transport = publisher.counters[0].transport
    assert (transport.url, transport.options) == ("telegraph://office", {"speed": 12})
    assert transport.sent == [("orders", 1)]
    assert transport.closed
    made = pgq.create_transport("telegraph", speed=3)
    assert (made.url, made.options) == ("telegraph:", {"speed": 3})
    assert "telegraph" in transport_names()
    with pytest.raises(ValueError, match="telegraph is registered"):
        pgq.register_transport("telegraph", Telegraph)


def test_transports_are_made_by_name(dsn: str, tmp_path: Path, client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    with pgq.create_transport("database", database_url=dsn, enable_batching=False) as database:
        assert isinstance(database, pgq.Transport)
        database.publish("orders", 1)
    assert len(client.claim("orders")) == 1
    assert isinstance(pgq.create_transport("memory"), pgq.MemoryTransport)
    files = pgq.create_transport(f"file://{tmp_path}/spool?compression=none")
    files.publish("orders", {"n": 1})
    (line,) = (tmp_path / "spool").rglob("*.jsonl")
    assert json.loads(line.read_text())["payload"] == {"n": 1}
    with pytest.raises(ValueError, match=r"no transport is called pigeon; there are: .*database"):
        pgq.create_transport("pigeon")


async def test_transports_of_asyncio_are_made_by_name(dsn: str) -> None:
    async with pgq.create_transport_async("database", database_url=dsn) as database:
        assert isinstance(database, pgq.AsyncTransport)
        assert await database.connected()


def test_the_counters_are_exact(dsn: str, client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    with pgq.Transport(database_url=dsn) as transport, pytest.raises(psycopg.Error):
        transport.retrieve("orders", n=0)
