"""Which findings the page shows."""

from __future__ import annotations

import json
from typing import Any

import psycopg

import pgq
from harness.page import run
from pgq.dashboard.data import Database
from pgq.dashboard.feed import Feed

CALM: dict[str, Any] = {
    "queue": "orders", "mode": "queue", "paused": False, "ready": 40, "scheduled": 0, "leased": 5,
    "waiting": 0, "dead": 0, "exact": True, "oldest": 2.0, "published": 10.0, "acked": 10.0,
    "failed": 0.0,
}  # fmt: skip


def test_the_findings_are_those_of_the_database(
    client: pgq.PooledClient, db: psycopg.Connection, dsn: str
) -> None:
    client.create_queue("orders")
    client.publish("orders", 1)
    client.pause("orders")

    async def sample() -> Any:
        database = Database(dsn)
        found = await database.sample()
        await database.close()
        return found

    (found,) = run(sample())["findings"]
    assert (found["level"], found["kind"], found["queue"]) == ("warn", "paused", "orders")
    assert found["text"].startswith("is paused with 1 ready")
    assert found["cure"] == "select pgq.resume('orders')"


def test_an_estimate_is_made_steadier_and_a_count_is_not() -> None:
    feed = Feed(Database(""), 1.0)
    guesses = [5000, 90_000, 5200, 0, 5100, 5050, 30_000]
    calmed = []
    for number, guess in enumerate(guesses):
        row = CALM | {"ready": guess, "exact": False}
        feed._learn({"at": float(number), "queues": [row], "holders": []})
        calmed.append(row["ready"])
    assert calmed[-4:] == [5100, 5100, 5075, 5100]
    exact = dict(CALM)
    feed._learn({"at": 9.0, "queues": [exact], "holders": []})
    assert exact["ready"] == 40
    assert [point[1] for point in json.loads(feed.past())["orders"]][-1] == 40
