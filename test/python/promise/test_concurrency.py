"""Many concurrent sessions: no message is lost or delivered twice, and no session stalls."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest
from conftest import Connect

SCALE = float(os.environ.get("PGQ_STRESS", "1"))


def together(*jobs: Callable[[], Any]) -> list[Any]:
    """Run the jobs concurrently, each in its own thread, and return their results."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def scaled(count: int) -> int:
    return max(1, int(count * SCALE))


def test_sixteen_claimers_share_all_messages(connect: Connect, db: psycopg.Connection) -> None:
    db.execute("select pgq.create_queue('work', lease => '10 min')")
    total = scaled(20_000)
    done = threading.Event()

    def publish_singly() -> None:
        conn = connect()
        for start in range(0, total // 2, 50):
            conn.execute(
                "select pgq.publish('work', to_jsonb(i)) from generate_series(%s::int, %s) i",
                [start, start + 49],
            )

    def publish_in_batches() -> None:
        conn, chance = connect(), random.Random(1)
        start = total // 2
        while start < total:
            size = min(chance.choice([2, 10, 100, 300]), total - start)
            conn.execute(
                "select count(*) from pgq.publish_batch('work', array("
                "select to_jsonb(i) from generate_series(%s::int, %s) i))",
                [start, start + size - 1],
            )
            start += size

    def publish() -> None:
        together(publish_singly, publish_in_batches)
        done.set()

    def claim(seed: int) -> list[int]:
        conn, chance, got = connect(), random.Random(seed), []
        while True:
            last = done.is_set()
            rows = conn.execute(
                "select lease_id, id, payload from pgq.claim('work', n => %s)",
                [chance.choice([1, 1, 2, 5, 20, 100])],
            ).fetchall()
            if rows:
                got += [row[2] for row in rows]
                if chance.random() < 0.5:
                    conn.execute("select pgq.ack(%s)", [rows[0][0]])
                else:
                    ids = [row[1] for row in rows]
                    chance.shuffle(ids)
                    for part in filter(None, (ids[: len(ids) // 2], ids[len(ids) // 2 :])):
                        conn.execute("select pgq.ack(%s, %s)", [rows[0][0], part])
            elif last and not count(db, "ready"):
                return got

    first, *rest = together(publish, *(partial(claim, seed) for seed in range(16)))
    assert first is None
    received = [payload for got in rest for payload in got]
    assert len(received) == len(set(received))
    assert set(received) == set(range(2 * (total // 2)))
    assert count(db, "lease") == 0


def count(db: psycopg.Connection, table: str) -> int:
    row = db.execute(f"select coalesce(sum(size), 0) from pgq.{table}").fetchone()
    assert row is not None
    return int(row[0])


# Between them they match every message: kinds 0 to 7, weights 0 to 9.
FILTERS: list[tuple[dict[str, Any], Callable[[int, int], bool]]] = [
    ({"kind": 0}, lambda kind, weight: kind == 0),
    ({"kind": {"$in": [0, 1, 2]}}, lambda kind, weight: kind <= 2),
    ({"kind": {"$gte": 2}, "weight": {"$lt": 5}}, lambda kind, weight: kind >= 2 and weight < 5),
    ({"kind": {"$ne": 3}}, lambda kind, weight: kind != 3),
    ({"weight": {"$gte": 7}}, lambda kind, weight: weight >= 7),
    ({"$or": [{"kind": 3}, {"weight": 5}]}, lambda kind, weight: kind == 3 or weight == 5),
    ({"kind": {"$in": [5, 6, 7]}}, lambda kind, weight: kind >= 5),
    ({"weight": {"$lte": 6}}, lambda kind, weight: weight <= 6),
]


@pytest.mark.parametrize("lane_keys", [None, ["kind"], ["weight", "kind"]])
def test_consumers_with_overlapping_filters_share_all_messages(
    connect: Connect, db: psycopg.Connection, lane_keys: list[str] | None
) -> None:
    db.execute("select pgq.create_queue('work', lane_keys => %s, lease => '10 min')", [lane_keys])
    total = scaled(4_000)
    published = threading.Event()

    def publish(seed: int, size: int) -> None:
        conn, chance = connect(), random.Random(seed)
        for _ in range(total // 2 // size):
            headers = [
                json.dumps({"kind": chance.randrange(8), "weight": chance.randrange(10)})
                for _ in range(size)
            ]
            conn.execute(
                "insert into pgq.message (topic, headers, payload)"
                " select 'work', h, h from unnest(%s::jsonb[]) h",
                [headers],
            )

    def publish_all() -> None:
        together(partial(publish, 1, 1), partial(publish, 2, 50))
        published.set()

    def consume(number: int) -> tuple[list[int], int]:
        document, accepts = FILTERS[number]
        conn, chance = connect(), random.Random(number)
        conn.execute("set client_min_messages = error")
        got: list[int] = []
        empty = most = 0
        while True:
            last = published.is_set()
            rows = conn.execute(
                "select lease_id, id, headers from pgq.claim('work', %s::jsonb, n => %s)",
                [json.dumps(document), chance.choice([1, 3, 10, 40])],
            ).fetchall()
            for _, message_id, headers in rows:
                assert accepts(headers["kind"], headers["weight"])
                got.append(message_id)
            if rows:
                conn.execute("select pgq.ack(%s)", [rows[0][0]])
                empty = 0
                continue
            empty += 1
            if not last:
                time.sleep(0.005)
                continue
            left = conn.execute(
                "select count(*) from pgq.peek('work', %s::jsonb, 1)", [json.dumps(document)]
            ).fetchone()
            if left == (0,):
                return got, most
            # Another session was taking from the same sets: that must end.
            most = max(most, empty)
            assert most < 200

    _, *rest = together(publish_all, *(partial(consume, n) for n in range(len(FILTERS))))
    received = [message_id for got, _ in rest for message_id in got]
    assert len(received) == len(set(received))
    assert len(received) == 2 * (total // 2)
    assert count(db, "ready") == 0
    assert count(db, "lease") == 0


@pytest.mark.unpooled("kills sessions that are known by name")
def test_nothing_is_lost_when_backends_are_killed_and_eras_turn(
    connect: Connect, db: psycopg.Connection
) -> None:
    """Work and acknowledgement commit together, so that the effects can be counted exactly."""
    db.execute("select pgq.create_queue('work', lease => '1 s', max_attempts => 1000,"
               " backoff => '10 ms', retention => '0', lane_keys => '{kind}')")  # fmt: skip
    db.execute("create table sent (uid int primary key); create table done (uid int)")
    kills = scaled(120)
    stop = threading.Event()
    uids = iter(range(10**9))
    lock = threading.Lock()

    def next_uids(size: int) -> list[int]:
        with lock:
            return [next(uids) for _ in range(size)]

    def tough(step: Callable[[psycopg.Connection, random.Random], None], seed: int) -> int:
        """Repeat a step until stopped, with a new connection after each failure."""
        chance, disasters = random.Random(seed), 0
        while not stop.is_set():
            try:
                with connect(application_name="victim", autocommit=False) as conn:
                    while not stop.is_set():
                        step(conn, chance)
                        conn.commit()
            except (psycopg.OperationalError, psycopg.InterfaceError):
                disasters += 1
            except psycopg.Error as error:
                if error.sqlstate != "QU003":  # a lease that was lost: the step has done nothing
                    raise
        return disasters

    def publish(conn: psycopg.Connection, chance: random.Random) -> None:
        batch = next_uids(chance.choice([1, 1, 1, 5, 30]))
        conn.execute("insert into sent select unnest(%s::int[])", [batch])
        conn.execute(
            "insert into pgq.message (topic, headers, payload, priority, deliver_at)"
            " select 'work', jsonb_build_object('kind', u %% 3), to_jsonb(u), u %% 2,"
            " case when u %% 7 = 0 then pgq.now() + interval '50 ms' end"
            " from unnest(%s::int[]) u",
            [batch],
        )
        time.sleep(chance.random() * 0.004)
        if chance.random() < 0.1:  # consumers lose their sessions, and must not be outrun
            conn.commit()
            many = "select from pgq.ready offset 2000 limit 1"
            while conn.execute(many).fetchone() is not None and not stop.is_set():
                conn.commit()
                time.sleep(0.05)

    def consume(conn: psycopg.Connection, chance: random.Random) -> None:
        wanted = chance.choice([None, None, {"kind": chance.randrange(3)}])
        rows = conn.execute(
            "select lease_id, id, payload from pgq.claim('work', %s::jsonb, n => %s)",
            [wanted and json.dumps(wanted), chance.choice([1, 5, 20])],
        ).fetchall()
        if chance.random() < 0.9:
            conn.commit()
        if not rows:
            time.sleep(0.002)
            return
        ids = [row[1] for row in rows]
        assert len(ids) == len(set(ids))
        fate = chance.random()
        if fate < 0.05:
            return  # forgotten: the lease expires
        if fate < 0.15:
            delay = chance.choice(["0", None])
            conn.execute("select pgq.nack(%s, delay => %s)", [rows[0][0], delay])
            return
        some = rows if fate < 0.8 else rows[: len(rows) // 2 + 1]
        conn.execute("insert into done select unnest(%s::int[])", [[row[2] for row in some]])
        conn.execute("select pgq.ack(%s, %s)", [rows[0][0], [row[1] for row in some]])
        if len(some) < len(rows):
            conn.execute("select pgq.nack(%s, delay => '0')", [rows[0][0]])

    def maintain(conn: psycopg.Connection, chance: random.Random) -> None:
        conn.execute("call pgq.maintain()")
        time.sleep(0.002)

    def turned(conn: psycopg.Connection) -> bool:
        return conn.execute("select from pgq.era where number > 2").fetchone() is not None

    def kill() -> int:
        conn, chance, killed = connect(), random.Random(0), 0
        try:
            # Continue until eras have rotated; the time depends on readers of the log.
            while killed < kills or not turned(conn):
                row = conn.execute(
                    "select count(pg_terminate_backend(pid)) from ("
                    " select pid from pg_stat_activity where application_name = 'victim'"
                    " and datname = current_database() order by random() limit 1) v"
                ).fetchone()
                assert row is not None
                killed += row[0]
                time.sleep(chance.random() * 0.1)
        finally:
            stop.set()
        return killed

    jobs: list[Callable[[], Any]] = [kill]
    jobs += [partial(tough, publish, seed) for seed in range(3)]
    jobs += [partial(tough, consume, 100 + seed) for seed in range(5)]
    jobs += [partial(tough, maintain, 200)]
    killed, *_ = together(*jobs)
    assert killed >= kills

    # Deliver the rest: no lease lasts longer than a second.
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        rows = db.execute("select lease_id, payload from pgq.claim('work', n => 1000)").fetchall()
        if rows:
            db.execute("insert into done select unnest(%s::int[])", [[row[1] for row in rows]])
            db.execute("select pgq.ack(%s)", [rows[0][0]])
        elif not any(count(db, table) for table in ("ready", "scheduled", "lease")):
            break
        else:
            time.sleep(0.05)
    lost = db.execute("select uid from sent except select uid from done").fetchall()
    assert lost == []
    doubled = db.execute("select uid from done group by uid having count(*) > 1").fetchall()
    assert doubled == []
    assert db.execute("select count(*) from done").fetchone() == (
        db.execute("select count(*) from sent").fetchone()
    )
    assert db.execute("select count(*) from pgq.dead_letter").fetchone() == (0,)
