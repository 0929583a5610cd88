"""Network traffic: a filter of the database sends only matches."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgq
from harness.proxy import Proxy
from harness.server import embedded_server

MESSAGES = 2000


@pytest.fixture(scope="module")
def proxy_dsn() -> Iterator[tuple[Proxy, str]]:
    """A queue with 2,000 messages, behind a proxy that counts bytes."""
    with embedded_server() as server, Proxy(server.port) as proxy:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("select pgq.create_queue('orders', '{bucket}')")
            conn.execute(
                "select pgq.publish_batch('orders', array_agg(to_jsonb(repeat('x', 500))),"
                " array_agg(jsonb_build_object('bucket', i %% 100))) from generate_series(1, %s) i",
                [MESSAGES],
            )
        yield proxy, make_conninfo(server.dsn(tcp=True), port=proxy.port)


@pytest.mark.parametrize("percent", [1, 10])
def test_a_filter_of_the_database_sends_only_matches(
    proxy_dsn: tuple[Proxy, str], percent: int
) -> None:
    proxy, dsn = proxy_dsn
    with pgq.connect(dsn) as client:
        client.connected()
        start = proxy.received
        there = client.claim("orders", pgq.F.bucket < percent, n=MESSAGES)
        by_server = proxy.received - start
        there.release()

        start = proxy.received
        here = client.claim(
            "orders", n=MESSAGES, where=lambda message: message.headers["bucket"] < percent
        )
        by_client = proxy.received - start
        here.release()
    assert {message.id for message in there} == {message.id for message in here}
    assert len(there) == MESSAGES * percent // 100
    # The rest are answers to a few short statements.
    assert by_server < by_client * percent / 100 + 4096
