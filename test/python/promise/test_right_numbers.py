"""Rates and counts are exact, under load and across counts of maintain()."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import pgq

Connect = Callable[..., psycopg.Connection]


def counted(db: psycopg.Connection, queue: str) -> dict[str, int]:
    """Return the counts of a queue, recorded or not."""
    rows = db.execute(
        "select event, sum(size)::bigint from ("
        "  select queue_id, event, size from pgq.traffic where event not in ('ready', 'dead')"
        "  union all select queue_id, event, size from pgq._uncounted(true)"
        "  union all select b.queue_id, 'in', h.matches"
        "    from pgq.binding_hit h join pgq.binding b using (binding_id) where not h.added_up"
        ") t join pgq.queue q using (queue_id) where q.name = %s group by 1",
        [queue],
    )
    return dict(rows.fetchall())


def test_counts_under_load_are_exact(
    client: pgq.PooledClient, db: psycopg.Connection, connect: Connect
) -> None:
    client.create_queue("orders", max_attempts=2)
    client.subscribe("fraud", "orders", {"risk": True})
    done: dict[str, int] = dict.fromkeys(("in", "fraud", "ack", "nack", "bury"), 0)
    mutex = threading.Lock()
    stop = threading.Event()
    beats = dict.fromkeys(range(5), 0.0)  # what each publisher and consumer has done so far

    def add(**more: int) -> None:
        with mutex:
            for name, number in more.items():
                done[name] += number

    def publish(number: int) -> None:
        own = pgq.Client(connect())
        for i in range(60):
            if i % 3 == number:
                own.publish("orders", i, headers={"risk": i % 2 == 0})
                add(**{"in": 1, "fraud": int(i % 2 == 0)})
            else:
                headers = [{"risk": n % 5 == 0} for n in range(i)]
                own.publish_batch("orders", list(range(i)), headers=headers) if i else None
                add(**{"in": i, "fraud": len(range(0, i, 5))})
            beats[number] += 1
        beats[number] = math.inf

    def consume(number: int) -> None:
        own = pgq.Client(connect())
        while not stop.is_set():
            beats[number] += 1
            batch = own.claim("orders", n=7)
            if not batch:
                continue
            if batch[0].attempt > 1 and batch[0].id % 11 == 0:
                add(bury=batch.bury())
            elif batch[0].id % 5 == 0:
                add(nack=batch.nack(delay=0))
            else:
                add(ack=batch.ack())

    def maintain() -> None:
        own = connect()
        while not stop.is_set():
            # As if a while had passed: each call counts.
            own.execute("update pgq.maintenance set counted_at = counted_at - interval '1 min'")
            own.execute("call pgq.maintain()")
            # A transaction that lasts from before a count until after the next one is not counted.
            seen = dict(beats)
            while not stop.is_set() and any(seen[n] == beats[n] < math.inf for n in beats):
                time.sleep(0.001)

    publishers = [threading.Thread(target=publish, args=(n,)) for n in range(3)]
    others = [threading.Thread(target=consume, args=(n,)) for n in (3, 4)]
    others.append(threading.Thread(target=maintain))
    for thread in publishers + others:
        thread.start()
    for thread in publishers:
        thread.join()
    while db.execute("select from pgq.ready r join pgq.queue using (queue_id)"
                     " where name = 'orders' limit 1").fetchall():  # fmt: skip
        pass
    stop.set()
    for thread in others:
        thread.join()
    for _ in range(2):
        found = counted(db, "orders")
        assert found.pop("in") == done["in"]
        assert {k: v for k, v in found.items() if v} == {
            k: done[k] for k in ("ack", "nack", "bury") if done[k]
        }
        assert counted(db, "fraud") == {"in": done["fraud"]}
        db.execute("update pgq.maintenance set counted_at = counted_at - interval '1 min'")
        db.execute("call pgq.maintain()")
    (stats,) = [row for row in client.queue_stats() if row["queue"] == "orders"]
    (dead,) = db.execute("select count(*) from pgq.dead_letter").fetchall()
    assert stats["dead"] == dead[0]


def rates(client: pgq.PooledClient, queue: str) -> dict[str, Any]:
    (row,) = [row for row in client.queue_stats() if row["queue"] == queue]
    return dict(row)


@pytest.mark.parametrize("fold", [False, True])
def test_rates_are_counts_over_the_window_that_is_stated(
    client: pgq.PooledClient, db: psycopg.Connection, fold: bool
) -> None:
    client.create_queue("orders")
    client.create_queue("quiet", journal="failures")
    client.subscribe("fraud", "orders", {"risk": True})
    client.publish_batch("orders", [1] * 300, headers=[{"risk": n < 30} for n in range(300)])
    client.claim("orders", n=200).ack()
    client.claim("orders", n=20).nack()
    client.publish("quiet", 1)
    client.claim("quiet").ack()
    if fold:
        client.maintain()
    row = rates(client, "orders")
    seconds = row["rate_seconds"]
    assert 60 <= seconds <= 120
    assert row["published_per_second"] * seconds == pytest.approx(300)
    assert row["acked_per_second"] * seconds == pytest.approx(200)
    assert row["failed_per_second"] * seconds == pytest.approx(20)
    fraud = rates(client, "fraud")
    assert fraud["published_per_second"] * fraud["rate_seconds"] == pytest.approx(30)
    quiet = rates(client, "quiet")
    assert quiet["acked_per_second"] is None  # nobody records them
    assert quiet["failed_per_second"] == 0


def test_a_new_queue_or_subscription_changes_no_rate_of_others(
    client: pgq.PooledClient,
) -> None:
    client.create_queue("orders")
    client.publish_batch("orders", [1] * 100)
    for change in (
        lambda: client.create_queue("new"),
        lambda: client.subscribe("ear", "orders"),
        lambda: client.alter_queue("orders", lane_keys=["type"]),
        lambda: client.drop_queue("new"),
        client.maintain,
    ):
        change()
        row = rates(client, "orders")
        assert row["published_per_second"] * row["rate_seconds"] == pytest.approx(100)
        (metric,) = [
            metric
            for metric in client.metrics()
            if metric["name"] == "pgq_published_messages_per_second"
            and metric["labels"] == {"queue": "orders"}
        ]
        assert metric["value"] > 0


def test_a_rate_that_was_not_counted_is_not_zero(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders")
    db.execute("select setval('pgq.message_id', 10000000)")  # too much to be counted for a look
    row = rates(client, "orders")
    assert row["published_per_second"] is row["acked_per_second"] is row["rate_seconds"] is None
    names = {row["name"] for row in client.metrics()}
    assert "pgq_ready_messages" in names
    assert "pgq_acked_messages_per_second" not in names
    client.maintain()
    client.maintain()
    db.execute("update pgq.maintenance set before_id = counted_id")
    assert rates(client, "orders")["published_per_second"] == 0


def test_dead_letters_are_counted_and_estimates_stay(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders", set_size=1, max_attempts=1)
    client.publish_batch("orders", [1] * 20_000)
    client.claim("orders", n=3000).nack()
    looks = [rates(client, "orders") for _ in range(3)]
    assert [row["dead"] for row in looks] == [3000] * 3
    assert looks[0]["estimated"] == ["ready"]
    assert len({row["ready"] for row in looks}) == 1
