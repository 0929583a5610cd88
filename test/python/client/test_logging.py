"""The log records of pgq: stable event names, fields for programs, no content of messages."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

import pgq
from harness.command import Command
from harness.paths import ROOT
from pgq.logging import JsonFormatter

SECRET = "the secret that nobody may read in a log"
FIELDS = {"queue", "message_id", "attempt", "lease_id", "duration"}


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", max_attempts=2, backoff=timedelta(0))
    return client


def events(caplog: pytest.LogCaptureFixture) -> dict[str, list[logging.LogRecord]]:
    found: dict[str, list[logging.LogRecord]] = {}
    for record in caplog.records:
        if record.name == "pgq":
            found.setdefault(record.__dict__["event"], []).append(record)
    return found


def consume(client: pgq.PooledClient, handler: Callable[[pgq.Message], None]) -> None:
    pgq.Consumer(client, "orders", handler, drain=True).run(signals=False)


def test_a_consumer_logs_the_outcome_of_each_message(
    orders: pgq.PooledClient, caplog: pytest.LogCaptureFixture
) -> None:
    what = ["fine", "bad", "worse", "later"]
    ids = orders.publish_batch("orders", [[word, SECRET] for word in what])

    def handle(message: pgq.Message) -> None:
        match message.payload[0]:
            case "bad":
                raise ValueError("spoilt")
            case "worse":
                raise pgq.Reject
            case "later" if message.attempt == 1:
                raise pgq.Retry(delay=timedelta(0))

    with caplog.at_level(logging.DEBUG, "pgq"):
        consume(orders, handle)
    found = events(caplog)
    assert {name: len(records) for name, records in found.items()} | {"batch_claimed": 0} == {
        "consumer_started": 1,
        "consumer_stopped": 1,
        "batch_claimed": 0,
        "message_handled": 2,
        "message_failed": 2,
        "message_rejected": 1,
        "message_retried": 1,
        "message_died": 2,
    }
    for name in ("message_handled", "message_failed", "message_rejected", "message_retried"):
        for record in found[name]:
            fields = record.__dict__
            assert fields.keys() >= FIELDS
            assert fields["queue"] == "orders"
            assert fields["message_id"] in ids
            assert fields["lease_id"] > 0
            assert 0 <= fields["duration"] < 60
    assert [record.__dict__["attempt"] for record in found["message_failed"]] == [1, 2]
    assert found["message_failed"][0].levelname == "ERROR"
    assert found["consumer_stopped"][0].__dict__["handled"] == 2
    assert found["consumer_stopped"][0].__dict__["failed"] == 4
    assert sum(record.__dict__["size"] for record in found["batch_claimed"]) == 6


def test_the_content_of_a_message_is_not_logged(
    orders: pgq.PooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    # The server quotes the whole row in the details of this error.
    db.execute(
        "alter table pgq.message_0 add constraint no_secret check (payload::text !~ 'refuse')"
    )

    def handle(message: pgq.Message) -> None:
        raise ValueError("no")

    with caplog.at_level(logging.DEBUG, "pgq"):
        publisher = pgq.Publisher(orders)
        publisher.publish("orders", {"body": SECRET}, headers={"type": SECRET})
        publisher.flush()
        publisher.publish("orders", {"body": SECRET + " refuse"}, headers={"type": SECRET})
        with pytest.raises(pgq.PublishFailed):
            publisher.flush()
        publisher.close()
        consume(orders, handle)
    assert {"messages_published", "publish_refused", "message_failed"} <= set(events(caplog))
    formatter = JsonFormatter()
    assert SECRET not in "\n".join(map(formatter.format, caplog.records))


def test_a_lost_lease_names_the_lease(
    orders: pgq.PooledClient, db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    orders.publish("orders", 1)
    seen: list[int] = []
    lost = threading.Event()

    def handle(message: pgq.Message) -> None:
        if not seen:
            seen.append(message.lease_id)
            db.execute("select pgq.release(%s)", (message.lease_id,))
            deadline = time.monotonic() + 30
            while "lease_lost" not in events(caplog) and time.monotonic() < deadline:
                lost.wait(0.05)

    with caplog.at_level(logging.WARNING, "pgq"):
        pgq.Consumer(
            orders, "orders", handle, drain=True, lease=timedelta(seconds=1), concurrency=2
        ).run(signals=False)
    found = events(caplog)
    assert found["lease_lost"][0].__dict__["lease_id"] == seen[0]
    assert "messages_redelivered" in found


def test_a_record_is_one_line_of_json() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.getLogger("pgq").makeRecord(
            "pgq",
            logging.ERROR,
            "file.py",
            1,
            "%s of %s",
            ("one\ntwo", "orders"),
            exc_info=sys.exc_info(),
            extra={"event": "message_failed", "queue": "orders", "delay": timedelta(seconds=1)},
        )
    line = JsonFormatter().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert told.pop("time").endswith("+00:00")
    assert told.pop("traceback").endswith("ValueError: two\nlines")
    assert told == {
        "level": "ERROR",
        "logger": "pgq",
        "message": "one\ntwo of orders",
        "event": "message_failed",
        "queue": "orders",
        "delay": "0:00:01",
    }


def test_consume_logs_json_on_stderr(orders: pgq.PooledClient, pgq_process: Command) -> None:
    id = orders.publish("orders", {"body": SECRET})
    done = pgq_process(
        "consume",
        "orders",
        "--exec",
        "exit 0",
        "--drain",
        "--log",
        "json",
        "--log-level",
        "debug",
    )
    assert done.code == 0
    lines = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    handled = [line for line in lines if line["event"] == "message_handled"]
    assert [line["message_id"] for line in handled] == [id]
    assert handled[0].keys() >= FIELDS
    assert SECRET not in done.err


def test_every_event_is_documented() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "python/src/pgq").rglob("*.py")
    )
    logged = set(re.findall(r'"(?:DEBUG|INFO|WARNING|ERROR)",\s+"([a-z_]+)"', sources))
    told = (ROOT / "extension/monitoring.md").read_text(encoding="utf-8")
    assert len(logged) > 15
    assert logged == set(re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE))
