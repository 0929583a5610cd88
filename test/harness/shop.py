"""A shop on a bad night: queues in every state, for tests of the page and for its pictures."""

from __future__ import annotations

import random
import time
from threading import Event, Thread
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

Conn = psycopg.Connection[Any]

ERRORS = [
    "bank not reachable: connection to 10.0.4.17:443 timed out after 5 s",
    "bank not reachable: connection to 10.0.4.17:443 timed out after 5 s",
    "HTTP 422 from the bank: account is closed",
    "KeyError: 'iban'",
]


def build(conn: Conn) -> None:
    """Create the queues with some messages in each."""
    for statement in (
        "select pgq.create_queue('orders', lane_keys => '{type}', lease => '45 s')",
        "select pgq.create_queue('refunds', max_attempts => 2, backoff => '0 s')",
        "select pgq.create_queue('mails', lease => '20 s')",
        "select pgq.create_queue('invoices')",
        "select pgq.create_queue('warehouse.eu')",
        "select pgq.create_queue('audit', mode => 'archive')",
        "select pgq.subscribe('billing', 'orders', '{\"type\": \"paid\"}')",
        "select pgq.subscribe('search-index', '#')",
    ):
        conn.execute(statement)
    _publish(conn, "orders", 400, lambda n: {"order": 7000 + n, "amount": 20 + n % 180})
    conn.execute(
        "insert into pgq.message (topic, headers, payload, published_at)"
        " select 'mails', '{\"type\": \"paid\"}', jsonb_build_object('to', n || '@example.com'),"
        " now() - interval '14 min' from generate_series(1, 1240) n"
    )
    _publish(conn, "invoices", 60, lambda n: {"invoice": 90_000 + n})
    _publish(conn, "warehouse.eu", 25, lambda n: {"parcel": n, "weight": 1.5})
    conn.execute("select pgq.pause('invoices')")
    _let_die(conn, 18)
    conn.execute("select pgq.alter_queue('billing', max_leased => 50, rate => '1000/s')")
    conn.execute("select pgq.wait_begin('mails', 'a mailer', '1 h')")
    conn.execute("select pgq.publish('orders', '{\"order\": 1}', delay => '1 h')")
    conn.execute("select pgq.schedule('nightly', 'invoices', '{}', cron => '0 3 * * *')")
    hold(conn, "orders", "checkout-worker-1", 40, lease="45 s")
    hold(conn, "orders", "checkout-worker-2", 25, lease="38 s")
    hold(conn, "billing", "ledger", 12, lease="6 s")
    hold(conn, "warehouse.eu", "nightly-export", 10, lease="infinity")


def hold(conn: Conn, queue: str, holder: str, n: int, *, lease: str) -> int:
    """Claim messages under an application name, and hold them."""
    conn.execute("select set_config('application_name', %s, false)", [holder])
    if lease == "infinity":
        row = conn.execute(
            "select lease_id from pgq.hold(%s, 'export', n => %s)", [queue, n]
        ).fetchone()
    else:
        row = conn.execute(
            "select lease_id from pgq.claim(%s, n => %s, lease => %s)", [queue, n, lease]
        ).fetchone()
    conn.execute("select set_config('application_name', 'shop', false)")
    assert row is not None
    return int(row[0])


def _publish(conn: Conn, topic: str, n: int, payload: Any) -> None:
    kinds = ["paid", "paid", "new", "refund"]
    conn.execute(
        "select pgq.publish_batch(%s, %s::jsonb[], %s::jsonb[])",
        [
            topic,
            [Jsonb(payload(number)) for number in range(n)],
            [Jsonb({"type": kinds[number % 4], "region": "eu"}) for number in range(n)],
        ],
    )


def _let_die(conn: Conn, n: int) -> None:
    """Refuse messages until they are dead letters."""
    _publish(conn, "refunds", n, lambda i: {"refund": 500 + i, "iban": f"DE{i:020d}"})
    conn.execute("select set_config('application_name', 'refund-worker-3', false)")
    for _ in range(2):
        rows = conn.execute("select id, lease_id from pgq.claim('refunds', n => %s)", [n])
        for number, (id, lease) in enumerate(rows.fetchall()):
            conn.execute(
                "select pgq.nack(%s, %s, error => %s, details => %s)",
                [lease, [id], ERRORS[number % 4], Jsonb({"status": 504, "try": number})],
            )
    conn.execute("select set_config('application_name', 'shop', false)")


class Traffic:
    """Publishers that are faster than the consumers, until the block ends."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._stop = Event()
        self._thread = Thread(target=self._run, name="traffic")

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        chance = random.Random(7)
        with psycopg.connect(self._dsn, autocommit=True, application_name="shop") as conn:
            started = time.monotonic()
            while not self._stop.wait(0.1):
                age = time.monotonic() - started
                _publish(conn, "orders", chance.randint(4, 9 + int(age)), lambda n: {"order": n})
                self._work(conn, "orders", chance.randint(2, 6))
                self._work(conn, "billing", chance.randint(2, 9))
                self._work(conn, "search-index", chance.randint(2, 40))

    def _work(self, conn: Conn, queue: str, n: int) -> None:
        row = conn.execute("select lease_id from pgq.claim(%s, n => %s)", [queue, n]).fetchone()
        if row is not None:
            conn.execute("select pgq.ack(%s)", [row[0]])
