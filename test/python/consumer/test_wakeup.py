"""Sleeping consumers are woken by whatever arrives, and by nothing else.

PGQ_WAKEUPS is the number of wake-ups of the stress test.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

Connect = Callable[..., psycopg.Connection]

pytestmark = pytest.mark.unpooled("LISTEN needs a session")

WAKEUPS = int(os.environ.get("PGQ_WAKEUPS", "2000"))
PAIRS = 3
TIMEOUT = 30.0


def value(db: psycopg.Connection, query: str, *arguments: Any) -> Any:
    row = db.execute(query, arguments).fetchone()
    assert row is not None
    return row[0]


def listen(conn: psycopg.Connection, queue: str) -> None:
    conn.execute(f"listen {value(conn, 'select pgq.channel(%s)', queue)}")


@dataclass
class Consumer:
    """A consumer that follows the protocol: claim until nothing is left, wait_begin, sleep."""

    conn: psycopg.Connection
    queue: str
    name: str
    timeout: float = TIMEOUT
    got: list[Any] = field(default_factory=list)
    woken: int = 0
    lost: int = 0
    unarmed: int = 0
    took: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    asleep: threading.Event = field(default_factory=threading.Event)
    _waits: bool = False

    def __post_init__(self) -> None:
        listen(self.conn, self.queue)

    def claim(self) -> bool:
        rows = self.conn.execute(
            "select lease_id, payload from pgq.claim(%s, n => 10)", [self.queue]
        ).fetchall()
        if rows:
            self.took.release(len(rows))
            if self._waits:
                self.conn.execute("select pgq.wait_end(%s, %s)", [self.queue, self.name])
                self._waits = False
            self.conn.execute("select pgq.ack(%s)", [rows[0][0]])
            self.got += [row[1] for row in rows]
        return bool(rows)

    def wait_begin(self) -> float:
        self._waits = True
        return float(
            value(
                self.conn,
                "select extract(epoch from pgq.wait_begin(%s, %s, make_interval(secs => %s)))",
                self.queue,
                self.name,
                self.timeout,
            )
        )

    def notified(self, seconds: float) -> bool:
        return bool(list(self.conn.notifies(timeout=seconds, stop_after=1)))

    def go_to_sleep(self) -> None:
        """Run the protocol before sleeping; the queue must be empty."""
        while True:
            assert not self.claim()
            if self.wait_begin() == self.timeout:
                break
            list(self.conn.notifies(timeout=0.01))

    def run(self) -> None:
        """Consume until the message "stop" comes."""
        while "stop" not in self.got:
            while self.claim():
                pass
            seconds = self.wait_begin()
            if seconds == 0:
                continue
            self.asleep.set()
            notified = self.notified(seconds)
            self.asleep.clear()
            if notified:
                self.woken += 1
            elif self.claim():
                if seconds < 1:
                    # It has to claim again soon: a publisher may not have seen its registration.
                    self.unarmed += 1
                else:
                    # It slept although there was a message.
                    self.lost += 1


def publish_at_random(conn: psycopg.Connection, consumer: Consumer, wakeups: int) -> int:
    """Publish at random moments, some of it in transactions that stay open for a while.

    Each message waits for the one before it to be consumed, so that none wakes a consumer that
    another should have woken. Half of them wait until the consumer sleeps, or is about to.
    """
    chance = random.Random(consumer.queue)
    count = 0
    while consumer.woken + consumer.unarmed < wakeups and consumer.lost == 0:
        if chance.random() < 0.5:
            consumer.asleep.wait(TIMEOUT)
        time.sleep(chance.choice((0, chance.uniform(0, 0.002), chance.uniform(0, 0.008))))
        if chance.random() < 0.3:
            with conn.transaction():
                conn.execute("select pgq.publish(%s, '0')", [consumer.queue])
                time.sleep(chance.choice((0, chance.uniform(0, 0.005))))
        else:
            conn.execute("select pgq.publish(%s, '0')", [consumer.queue])
        count += 1
        assert consumer.took.acquire(timeout=3 * TIMEOUT)
    conn.execute("select pgq.publish(%s, '\"stop\"')", [consumer.queue])
    return count


def test_no_wake_up_is_lost(connect: Connect) -> None:
    consumers: list[Consumer] = []
    with ThreadPoolExecutor(2 * PAIRS) as pool:
        runs = []
        for i in range(PAIRS):
            conn = connect()
            conn.execute("select pgq.create_queue(%s, journal => 'failures')", [f"q{i}"])
            consumer = Consumer(connect(), f"q{i}", "consumer")
            consumers.append(consumer)
            pool.submit(consumer.run)
            runs.append(pool.submit(publish_at_random, conn, consumer, WAKEUPS // PAIRS + 1))
        counts = [run.result() for run in runs]
    print("woken, woken before it was safe to sleep, lost:")
    print(*((c.woken, c.unarmed, c.lost) for c in consumers))
    assert sum(consumer.lost for consumer in consumers) == 0
    assert [consumer.got for consumer in consumers] == [[0] * n + ["stop"] for n in counts]


def test_any_insert_wakes_a_consumer(dsn: str, connect: Connect) -> None:
    db = connect()
    db.execute("select pgq.create_queue('q')")
    db.execute("select pgq.subscribe('s', 'q.#')")
    consumer = Consumer(connect(), "s", "sleeper")

    def publish() -> None:
        db.execute("select pgq.publish('q', '\"function\"')")

    def publish_batch() -> None:
        db.execute("select pgq.publish_batch('q', array['\"batch\"']::jsonb[])")

    def insert() -> None:
        db.execute("insert into pgq.message (topic, payload) values ('q', '\"insert\"')")

    def insert_many() -> None:
        db.execute(
            "insert into pgq.message (topic, payload)"
            " select 'q.' || i, '\"many\"' from generate_series(1, 3) i"
        )

    def copy() -> None:
        with db.cursor() as cur, cur.copy("copy pgq.message (topic, payload) from stdin") as rows:
            rows.write_row(("q.copied", '"copy"'))

    def trigger() -> None:
        db.execute("create table outside (what text)")
        db.execute(
            "create function pass_on() returns trigger language plpgsql as $$ begin"
            " insert into pgq.message (topic, payload) values ('q', to_jsonb(new.what));"
            " return null; end $$"
        )
        db.execute(
            "create trigger pass_on after insert on outside for each row execute function pass_on()"
        )
        db.execute("insert into outside values ('trigger')")

    def process() -> None:
        script = (
            "import psycopg, sys\n"
            "with psycopg.connect(sys.argv[1]) as conn:\n"
            "    conn.execute('insert into pgq.message (topic, payload) values (%s, %s)',"
            " ['q.far', '\"process\"'])\n"
        )
        subprocess.run([sys.executable, "-c", script, dsn], check=True)

    ways = [publish, publish_batch, insert, insert_many, copy, trigger, process]
    for way in ways:
        consumer.go_to_sleep()
        way()
        assert consumer.notified(TIMEOUT), way.__name__
        assert consumer.claim(), way.__name__
    assert list(dict.fromkeys(consumer.got)) == [
        "function",
        "batch",
        "insert",
        "many",
        "copy",
        "trigger",
        "process",
    ]


def test_claims_and_acks_wake_no_consumer(connect: Connect) -> None:
    db = connect()
    db.execute("select pgq.create_queue('q')")
    sleeper = Consumer(connect(), "q", "sleeper")
    db.execute("select pgq.publish('q', '1')")
    lease = value(db, "select lease_id from pgq.claim('q')")
    # What it can get by the lease's end keeps it from sleeping longer.
    while not (seconds := sleeper.wait_begin()) > 1:
        assert not sleeper.claim()
    assert seconds <= 30
    db.execute("select pgq.extend(%s, '1 min')", [lease])
    db.execute("select pgq.ack(%s)", [lease])
    assert not sleeper.notified(0.2)


def test_ten_listeners_get_each_message_once(connect: Connect) -> None:
    db = connect()
    db.execute("select pgq.create_queue('q')")
    consumers = [Consumer(connect(), "q", f"listener {i}") for i in range(10)]
    for consumer in consumers:
        consumer.go_to_sleep()
    # One message wakes them all, and one of them gets it.
    db.execute("select pgq.publish('q', '-1')")
    assert [consumer.notified(TIMEOUT) for consumer in consumers] == [True] * 10
    assert sum(consumer.claim() for consumer in consumers) == 1

    with ThreadPoolExecutor(10) as pool:
        runs = [pool.submit(consumer.run) for consumer in consumers]
        for i in range(300):
            db.execute("select pgq.publish('q', %s::text::jsonb)", [str(i)])
            if i % 50 == 0:
                time.sleep(0.02)
        while not all(run.done() for run in runs):
            db.execute("select pgq.publish('q', '\"stop\"')")
            time.sleep(0.02)
        for run in runs:
            run.result()
    got = Counter(m for consumer in consumers for m in consumer.got if m != "stop")
    assert got == Counter(range(-1, 300))
    assert sum(consumer.lost for consumer in consumers) == 0


def test_a_delayed_message_shortens_the_sleep(connect: Connect) -> None:
    db = connect()
    db.execute("select pgq.create_queue('q')")
    consumer = Consumer(connect(), "q", "sleeper")
    consumer.go_to_sleep()
    db.execute("select pgq.publish('q', '1', delay => '300 ms')")
    assert consumer.notified(TIMEOUT)
    assert not consumer.claim()
    seconds = consumer.wait_begin()
    assert 0 < seconds <= 0.3
    assert not consumer.notified(seconds)
    assert consumer.claim()


def test_a_retry_shortens_the_sleep_of_the_others(connect: Connect) -> None:
    db = connect()
    db.execute("select pgq.create_queue('q')")
    consumer = Consumer(connect(), "q", "sleeper")
    db.execute("select pgq.publish('q', '1')")
    lease = value(db, "select lease_id from pgq.claim('q', lease => '1 h')")
    consumer.go_to_sleep()
    db.execute("select pgq.nack(%s, delay => '200 ms')", [lease])
    assert consumer.notified(TIMEOUT)
    assert not consumer.claim()
    seconds = consumer.wait_begin()
    assert 0 < seconds <= 0.2
    assert not consumer.notified(seconds)
    assert consumer.claim()


def test_a_backfill_shortens_the_sleep(connect: Connect) -> None:
    db = connect()
    db.execute("select pgq.create_queue('log')")
    db.execute("select pgq.subscribe('q', 'nothing.yet')")
    db.execute("select pgq.publish('log', '1', delay => '10 s')")
    consumer = Consumer(connect(), "q", "sleeper")
    consumer.go_to_sleep()
    db.execute("select pgq.subscribe('q', 'log', since_id => 0)")
    assert consumer.notified(TIMEOUT)
    assert 0 < consumer.wait_begin() <= 10


def test_a_consumer_that_died_costs_only_a_spurious_notification(connect: Connect) -> None:
    db = connect()
    db.execute("select pgq.create_queue('q')")
    listener = connect()
    listen(listener, "q")
    consumer = Consumer(connect(), "q", "mortal", timeout=0.3)
    consumer.go_to_sleep()
    began = time.monotonic()
    consumer.conn.close()
    db.execute("select pgq.publish('q', '1')")
    if time.monotonic() - began < 0.3:
        assert list(listener.notifies(timeout=TIMEOUT, stop_after=1))
    # Its registration lasts twice its timeout.
    time.sleep(0.7)
    list(listener.notifies(timeout=0))
    db.execute("select pgq.publish('q', '2')")
    assert list(listener.notifies(timeout=0.2)) == []
    assert value(db, "select count(*) from pgq.waiter") == 1
    # Upkeep sweeps it a minute later.
    db.execute("update pgq.waiter set until = until - interval '2 min'")
    db.execute("call pgq.maintain()")
    assert value(db, "select count(*) from pgq.waiter") == 0
    heir = Consumer(connect(), "q", "heir")
    assert heir.claim()
    assert sorted(heir.got) == [1, 2]


def test_a_listener_that_lost_its_connection_misses_nothing(connect: Connect) -> None:
    db = connect()
    db.execute("select pgq.create_queue('q')")
    first = Consumer(connect(), "q", "first life")
    first.go_to_sleep()
    db.execute("select pg_terminate_backend(%s, 10000)", [first.conn.info.backend_pid])
    db.execute("select pgq.publish('q', '\"meanwhile\"')")
    # LISTEN first, then claim: earlier messages are found, later ones notify.
    second = Consumer(connect(), "q", "second life")
    assert second.claim()
    second.go_to_sleep()
    db.execute("select pgq.publish('q', '\"later\"')")
    assert second.notified(TIMEOUT)
    assert second.claim()
    assert second.got == ["meanwhile", "later"]
