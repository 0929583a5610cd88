"""Dumps at random moments while the log rotates; each is restored elsewhere, drained and compared.

What was published and what was acknowledged stands in plain tables, written by the same
transactions, so a dump has its own account: the restored queue has to deliver exactly what was
published and not acknowledged at the snapshot of the dump. Every other dump has to wait for a table
that DDL has locked: pg_dump has its snapshot then, but not yet its locks.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg

from chaos.chaos import wait_for
from harness.install import check_invariants
from harness.paths import ROOT
from harness.report import Report
from harness.server import SETTINGS
from pgq import embedded

TABLES = """
create extension pgq;
create table sent (id bigint primary key);
create table done (id bigint primary key);
create table busy (id int);
select pgq.create_queue('work', lease => '2 s', max_attempts => 1000, retention => '300 ms',
                        backoff => '50 ms', max_backoff => '200 ms');
"""

# Each of these returns no row if the restored database has what it should have.
LAWS = {
    "nothing is missing": "select id from sent except select id from done"
    " except select id from drained",
    "nothing was acknowledged before": "select id from drained intersect select id from done",
    "nothing was not published": "select id from drained except select id from sent",
    "nothing is delivered twice": "select id from drained group by id having count(*) > 1",
}


class Traffic:
    """Publishers, consumers that leave some messages unfinished, and fast rotation."""

    def __init__(self, server: embedded.Server, seed: int) -> None:
        self.server = server
        self.stopping = threading.Event()
        self.seed = seed

    def run(self, kind: str, number: int) -> None:
        chance = random.Random(f"{self.seed} {kind} {number}")
        step = {"publish": self.publish, "consume": self.consume, "rotate": self.rotate}[kind]
        with psycopg.connect(self.server.dsn("original"), autocommit=kind == "rotate") as conn:
            while not self.stopping.is_set():
                step(conn, chance)

    def publish(self, conn: psycopg.Connection, chance: random.Random) -> None:
        conn.execute(
            "insert into sent select * from pgq.publish_batch('work', array_fill('1'::jsonb, %s))",
            [[chance.choice([1, 1, 10, 100])]],
        )
        conn.commit()
        row = conn.execute("select sum(ready) from pgq.queue_stats").fetchone()
        conn.commit()
        self.stopping.wait(0.5 if row is not None and int(row[0] or 0) > 5000 else 0.005)

    def consume(self, conn: psycopg.Connection, chance: random.Random) -> None:
        size = chance.choice([1, 20, 200])
        rows = conn.execute(
            "select lease_id, id from pgq.claim('work', n => %s)", [size]
        ).fetchall()
        conn.commit()
        if not rows:
            time.sleep(0.01)
            return
        fate = chance.random()
        if fate < 0.1:
            return  # the lease expires
        if fate < 0.2:
            conn.execute("select pgq.nack(%s, delay => '100 ms')", [rows[0][0]])
        else:
            ids = [id for _, id in rows]
            conn.execute("insert into done select unnest(%s::bigint[])", [ids])
            try:
                conn.execute("select pgq.ack(%s)", [rows[0][0]])
            except psycopg.Error as error:
                conn.rollback()  # too late: others have them
                if error.sqlstate != "QU003":
                    raise
        conn.commit()

    def rotate(self, conn: psycopg.Connection, _: random.Random) -> None:
        conn.execute("call pgq.maintain(until_done => false)")
        self.stopping.wait(0.02)


@contextmanager
def traffic(server: embedded.Server, seed: int) -> Iterator[list[Any]]:
    """Run traffic; raise the errors of its threads at the end."""
    flow = Traffic(server, seed)
    kinds = [("publish", 0), ("publish", 1), ("consume", 0), ("consume", 1), ("rotate", 0)]
    with ThreadPoolExecutor(len(kinds)) as pool:
        running = [pool.submit(flow.run, *kind) for kind in kinds]
        try:
            yield running
        finally:
            flow.stopping.set()
    for future in running:
        future.result()


def dump(server: embedded.Server, locked: bool, chance: random.Random) -> bytes:
    """Dump the database; optionally while a user's table is locked."""
    program = str(server.program("pg_dump"))
    command = [program, "--format=custom", "--dbname", server.dsn("original")]
    if not locked:
        return subprocess.run(command, check=True, capture_output=True).stdout
    with psycopg.connect(server.dsn("original")) as ddl:
        ddl.execute("alter table busy add column if not exists more int")
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            waits = "select from pg_locks where relation = 'busy'::regclass and not granted"
            deadline = time.monotonic() + 60
            while ddl.execute(waits).fetchone() is None:
                assert time.monotonic() < deadline, "pg_dump does not wait for the table"
                time.sleep(0.02)
            time.sleep(0.5 + chance.random())  # eras come and go meanwhile
            ddl.rollback()
            output, _ = process.communicate()
        assert process.returncode == 0
    return output


def restore(server: embedded.Server, content: bytes) -> tuple[dict[str, str], int]:
    """Restore a dump, deliver all that is in it; return the laws that are broken, and how much."""
    server.drop_database("restored")
    dsn = server.create_database("restored")
    subprocess.run(
        [server.program("pg_restore"), "--exit-on-error", "--dbname", dsn],
        input=content,
        check=True,
        capture_output=True,
    )
    broken = {}
    with psycopg.connect(dsn, autocommit=True) as conn:
        if wrong := check_invariants(conn):
            broken["pgq.check()"] = "\n".join(wrong[:5])
        conn.execute("create table drained (id bigint)")
        try:
            wait_for(lambda: drain(conn), "the end of what was leased or scheduled")
        except psycopg.errors.DataCorrupted as error:
            broken["everything can be delivered"] = str(error)
        for law, query in LAWS.items():
            if rows := conn.execute(query.encode()).fetchmany(5):
                broken[law] = "\n".join(map(str, rows))
        row = conn.execute("select count(*) from drained").fetchone()
    server.drop_database("restored")
    return broken, 0 if row is None else int(row[0])


def drain(conn: psycopg.Connection) -> bool:
    """Deliver all ready messages; false if some are still leased or scheduled."""
    while conn.execute(
        "with c as (select lease_id, id from pgq.claim('work', n => 5000)), d as"
        " (insert into drained select id from c returning 1)"
        " select pgq.ack(min(lease_id)) from c having count(*) > 0"
    ).fetchall():
        pass
    left = "select from pgq.lease union all select from pgq.scheduled limit 1"
    return conn.execute(left).fetchone() is None


def run(report: Report, *, dumps: int, seed: int = 0) -> None:
    """Take that many dumps under load, and compare each one restored with its own account."""
    seed = seed or random.randrange(1, 1_000_000)
    print(f"dumps: seed {seed}")
    chance = random.Random(seed)
    contents = []
    with embedded.start(extension_dir=ROOT, settings=SETTINGS, durable=False) as server:
        with psycopg.connect(server.create_database("original"), autocommit=True) as conn:
            conn.execute(TABLES)
            with traffic(server, seed):
                for number in range(dumps):
                    time.sleep(chance.random())
                    contents.append(dump(server, number % 2 == 0, chance))
                turned = "select from pgq.era where number >= 2"
                wait_for(lambda: conn.execute(turned).fetchone() is not None, "rotations")
            row = conn.execute("select last_value from pgq.era_number").fetchone()
            report.check("the original", "\n".join(check_invariants(conn)))
        drained = 0
        for number, content in enumerate(contents, 1):
            broken, count = restore(server, content)
            drained += count
            for law, detail in broken.items():
                report.bad(f"dump {number}: {law}", detail)
            if not broken:
                report.good()
        report.check("there was something to restore", "" if drained else "nothing")
        print(f"{dumps} dumps restored, {drained} messages delivered from them, era {row}")
