"""mode=all while two publish, eras rotate every other second and the archiver is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from harness.paths import ROOT, TEST
from harness.spark import prepare
from pgq.spark._rows import schema_of
from pgq.spark.options import BATCH_READ, Options
from pgq.spark.source import PgqReader

KILLS = int(os.environ.get("PGQ_LOG_KILLS", "50"))
READS = int(os.environ.get("PGQ_LOG_READS", "500"))

ARCHIVER = """
import sys, time
from datetime import timedelta
from harness.spark import build
import pgq.spark

dsn, target = sys.argv[1:]
spark = build("local[2]")
pgq.spark.register(spark, dsn)
print("ready", flush=True)
while True:
    for era in pgq.spark.archive(spark, target, dsn=dsn, timeout=timedelta(seconds=2)):
        print("archived", era.era, era.messages, flush=True)
    time.sleep(0.2)
"""


class Run:
    """Threads that run until they are stopped, or one of them has failed."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None], pause: float) -> None:
        def go_on() -> None:
            try:
                while not self.over.wait(pause):
                    work()
            except BaseException as error:
                self.errors.append(error)
                self.over.set()

        self._threads.append(threading.Thread(target=go_on))
        self._threads[-1].start()

    def end(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()


def test_every_read_equals_that_of_a_plain_table(
    db: psycopg.Connection, dsn: str, tmp_path: Path
) -> None:
    db.execute("select pgq.create_queue('work', retention => '2 s')")
    db.execute("select pgq.archive_wait('1 day')")  # nothing is emptied before it begins
    db.execute("create table public.truth (id bigint primary key)")
    connections = [psycopg.connect(dsn, autocommit=True) for _ in range(6)]
    first, second, consumer, keeper, one, other = connections
    run = Run()
    reads: list[int] = []

    def publish(conn: psycopg.Connection) -> None:
        size = random.randint(1, 50)
        with conn.transaction(force_rollback=random.random() < 0.1):
            conn.execute(
                "with p as (select pgq.publish_batch('work', array(select to_jsonb(i)"
                " from generate_series(1, %s) i)) as id) insert into truth select id from p",
                [size],
            )
            if random.random() < 0.1:
                time.sleep(random.random())  # commits late

    def consume() -> None:
        """Acknowledge most messages; release some; let some die and replay them."""
        row = consumer.execute("select max(lease_id) from pgq.claim('work', n => 40)").fetchone()
        if row is None or row[0] is None:
            return
        how = random.random()
        end = "ack" if how < 0.8 else "nack" if how < 0.9 else "bury"
        consumer.execute(f"select pgq.{end}(%s)".encode(), [row[0]])
        if how > 0.97:
            consumer.execute("select pgq.replay('work')")

    def rotate() -> None:
        keeper.execute("call pgq.maintain()")

    def truth(conn: psycopg.Connection) -> set[int]:
        return {id for (id,) in conn.execute("select id from truth").fetchall()}

    def read(conn: psycopg.Connection) -> None:
        given = {"dsn": dsn, "mode": "all", "topic": "work", "numPartitions": "2"}
        reader = PgqReader(Options(given, BATCH_READ, "reading"), schema_of(["id"]))
        before = truth(conn)
        parts = reader.partitions()
        if random.random() < 0.3:
            time.sleep(random.random() * 4)  # the plan grows old
        found: list[int] = []
        for part in parts:
            for batch in reader.read(part):
                found += batch.column("id").to_pylist()
        high = max((part.value.high for part in parts if part.value is not None), default=0)
        after = {id for id in truth(conn) if id <= high}
        assert len(found) == len(set(found)), "a message was read twice"
        assert before <= set(found), f"{len(before - set(found))} messages are missing"
        assert set(found) == after
        reads.append(len(found))

    # Each read reads everything: the log must not grow faster than the reads are done.
    run.start(lambda: publish(first), 0.2)
    run.start(lambda: publish(second), 0.3)
    run.start(consume, 0.1)
    run.start(rotate, 0.3)
    run.start(lambda: read(one), 1)
    run.start(lambda: read(other), 1)
    prepare()
    kills = 0
    log = (tmp_path / "log").open("w+")
    try:
        while (kills < KILLS or len(reads) < READS) and not run.over.is_set():
            archiver = subprocess.Popen(
                [sys.executable, "-c", ARCHIVER, dsn, str(tmp_path / "archive")],
                cwd=TEST,
                env=os.environ | {"PYTHONPATH": f"{TEST}:{ROOT / 'python/src'}"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
            assert archiver.stdout is not None
            with archiver.stdout as output:
                # From its first era on, at any moment.
                for line in output:
                    if line.startswith("archived"):
                        break
                run.over.wait(random.random() * 4)
                os.killpg(archiver.pid, signal.SIGKILL)
                archiver.wait()
            kills += 1
            print(f"{kills} kills, {len(reads)} reads, {reads[-1:]} messages", flush=True)
    finally:
        run.end()
        for conn in connections:
            conn.close()
        log.seek(0)
        tail = log.read()[-3000:]
        log.close()
    summary = db.execute(
        "select count(*), sum(messages), count(*) filter (where old <> '{}') from pgq.archive_era"
    ).fetchone()
    print(json.dumps({"kills": kills, "reads": len(reads), "eras": str(summary)}))
    assert not run.errors, (run.errors, tail)
    assert summary is not None
    assert summary[0] > 0
    assert summary[1] > 0
    assert kills >= KILLS
    assert len(reads) >= READS
