"""Clients behind a pooler that gives each transaction another session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

import pgq
from harness.install import install
from harness.pooler import pooled
from harness.server import embedded_server
from pgq import Message, cli


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The connection string of a database behind pgbouncer in transaction mode."""
    with embedded_server() as server, pooled(server, size=3) as behind:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            install(conn)
        yield behind.dsn()


def test_a_consumer_behind_such_a_pooler_polls_and_says_so(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    def handle(message: Message) -> None:
        seen.append(message.payload)

    with pgq.connect(address) as client:
        client.create_queue("orders")
        client.publish("orders", 0)
        options = pgq.ConsumerConfig(poll_interval=timedelta(milliseconds=100))
        with pgq.Consumer(client, "orders", handle, options):
            deadline = time.monotonic() + 60
            while not client.listener.impossible and time.monotonic() < deadline:
                time.sleep(0.05)
            assert client.listener.impossible
            for number in range(1, 10):
                client.publish("orders", number)
            while len(seen) < 10 and time.monotonic() < deadline:
                time.sleep(0.05)
    assert seen == list(range(10))
    assert "polling instead" in caplog.text


def test_a_client_behind_such_a_pooler_prepares_nothing(address: str) -> None:
    with pgq.connect(address, pool_size=3) as client:
        client.create_queue("bills")
        for number in range(30):
            # One transaction keeps a session, so that the next ones get others.
            with client.transaction() as held:
                held.publish("bills", number)
                client.publish("bills", number)
        assert len(client.claim("bills", n=99)) == 60
    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as conn:
        prepared = conn.execute("select count(*) from pg_prepared_statements where not from_sql")
        assert prepared.fetchone() == (0,)


def test_a_setting_of_the_doctor_is_not_left_to_others(address: str) -> None:
    assert cli.main(["doctor", "--only", "version", "--dsn", address]) == 0
    for _ in range(3):
        with psycopg.connect(address) as conn:
            assert conn.execute("show statement_timeout").fetchone() == ("0",)
