"""Schedules: by the client, for sleeping consumers, with concurrent sessions, after a crash."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

import pgq
from harness.paths import ROOT
from harness.server import SETTINGS
from pgq import embedded


@pytest.fixture(scope="module")
def crashing() -> Iterator[embedded.Server]:
    """A separate server with pgq and the queue jobs in the database postgres."""
    with embedded.start(extension_dir=ROOT, settings=SETTINGS) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("select pgq.create_queue('jobs')")
        yield server


def runs(conn: psycopg.Connection, name: str) -> list[datetime]:
    """Return which runs of a schedule were published."""
    rows = conn.execute(
        "select (headers ->> 'scheduled_at')::timestamptz from pgq.message"
        " where headers ->> 'schedule' = %s order by id",
        [name],
    ).fetchall()
    return [row[0] for row in rows]


def test_a_schedule_lives_and_ends(client: pgq.PooledClient) -> None:
    client.create_queue("jobs")
    first = client.schedule(
        "nightly",
        "jobs",
        {"kind": "report"},
        cron="30 2 * * *",
        time_zone="Europe/Berlin",
        missed="skip",
        headers={"tenant": "a"},
        priority=5,
        expires_in="2h",
    )
    assert first is not None
    assert first > datetime.now(first.tzinfo)
    [found] = client.schedules()
    assert (found["name"], found["cron"], found["missed"]) == (
        "nightly",
        "30 2 * * *",
        "skip",
    )
    assert (found["headers"], found["priority"]) == ({"tenant": "a"}, 5)
    assert (found["next_at"], found["expires_in"]) == (first, timedelta(hours=2))
    assert client.pause_schedule("nightly")
    assert not client.pause_schedule("nightly")
    assert client.schedules()[0]["paused"]
    assert client.resume_schedule("nightly")
    assert client.unschedule("nightly")
    assert client.schedules() == []


def test_what_makes_no_sense_is_refused(client: pgq.PooledClient) -> None:
    client.create_queue("jobs")
    with pytest.raises(TypeError, match="cron is text"):
        client.schedule("s", "jobs", 1, cron=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="every is no duration"):
        client.schedule("s", "jobs", 1, every="now and then")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="either cron or every"):
        client.schedule("s", "jobs", 1)
    assert client.schedules() == []


def test_a_consumer_that_sleeps_wakes_for_a_schedule(client: pgq.PooledClient) -> None:
    client.create_queue("jobs")
    seen: list[Any] = []
    woken = threading.Event()

    def handle(message: pgq.Message) -> None:
        seen.append(message.headers["schedule"])
        woken.set()

    with pgq.Consumer(client, "jobs", handle):
        deadline = time.monotonic() + 20
        with client.transaction() as inside:
            conn = inside._conn
            while not conn.execute("select from pgq.waiter where armed").fetchall():
                assert time.monotonic() < deadline, "the consumer does not sleep"
                time.sleep(0.05)
        client.schedule("soon", "jobs", 1, every="1s", missed="skip")
        assert woken.wait(20), "nobody has run the schedule"
        client.unschedule("soon")
    assert set(seen) == {"soon"}


def test_concurrent_sessions_and_a_crash_publish_each_run_once(crashing: embedded.Server) -> None:
    stop = threading.Event()

    def tend(statement: str) -> None:
        while not stop.is_set():
            try:
                with psycopg.connect(crashing.dsn(), autocommit=True) as conn:
                    while not stop.is_set():
                        conn.execute(statement.encode())
            except psycopg.Error:
                time.sleep(0.05)

    statements = ["select pgq.claim('jobs', n => 5)"] * 3 + ["call pgq.maintain()"] * 2
    with psycopg.connect(crashing.dsn(), autocommit=True) as conn:
        conn.execute("select pgq.schedule('each', 'jobs', '1', every => '1 s', missed => 'all')")
    threads = [threading.Thread(target=tend, args=[statement]) for statement in statements]
    for thread in threads:
        thread.start()
    try:
        for mode in ("kill", "immediate", "fast"):
            time.sleep(1.5)
            if mode == "kill":
                crashing.kill()
                crashing.start()
            else:
                crashing.restart("immediate" if mode == "immediate" else "fast")
        time.sleep(1.5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    with psycopg.connect(crashing.dsn(), autocommit=True) as conn:
        conn.execute("select pgq.claim('jobs')")
        found = runs(conn, "each")
    assert len(found) >= 5
    first = found[0]
    assert found == [first + timedelta(seconds=n) for n in range(len(found))]
