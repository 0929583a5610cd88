"""Consumers in their own processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import psycopg
import pytest
import worker

import pgq

PARENT = """
import sys
from datetime import timedelta
import pgq, worker

if __name__ == "__main__":
    pgq.run_processes(2, sys.argv[1], "orders", worker.handle, batch_size=1)
    print("bye", flush=True)
"""


def test_processes_share_a_queue_and_one_that_dies_is_replaced(
    client: pgq.PooledClient, db: psycopg.Connection, dsn: str, tmp_path: object
) -> None:
    client.create_queue("orders", lease=timedelta(seconds=1))
    db.execute("create table done (n int, pid int)")
    client.publish_batch("orders", [{"n": n, "dsn": dsn} for n in range(20)])
    program = os.path.join(str(tmp_path), "parent.py")
    with open(program, "w") as file:
        file.write(PARENT)
    parent = subprocess.Popen(
        [sys.executable, program, dsn],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    deadline = time.monotonic() + 40
    done: list[tuple[int, int]] = []
    while len(done) < 20 and time.monotonic() < deadline:
        time.sleep(0.1)
        done = db.execute("select * from done").fetchall()
    parent.send_signal(signal.SIGTERM)
    out, _ = parent.communicate(timeout=20)
    assert (out, parent.returncode) == ("bye\n", 0)
    assert sorted(n for n, _ in done) == list(range(20))
    assert os.getpid() not in {pid for _, pid in done}


def test_processes_that_drain_a_queue_wait_for_each_other(
    client: pgq.PooledClient, db: psycopg.Connection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_queue("orders")
    db.execute("create table done (n int, pid int)")
    # One process takes all of them, and the other finds nothing to do.
    client.publish_batch("orders", [{"n": n, "dsn": dsn} for n in range(10, 14)])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    pgq.run_processes(2, dsn, "orders", worker.handle_slowly, drain=True)
    assert len(db.execute("select from done").fetchall()) == 4


def test_processes_that_cannot_consume_say_so(
    client: pgq.PooledClient, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_queue("log", mode="archive")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    with pytest.raises(pgq.PgqError, match='queue "nope" does not exist'):
        pgq.run_processes(1, dsn, "nope", worker.handle)
    with pytest.raises(pgq.PgqError, match="archive"):
        pgq.run_processes(2, dsn, "log", worker.handle)


def test_no_process_is_no_use() -> None:
    with pytest.raises(ValueError, match="one"):
        pgq.run_processes(0, "", "orders", print)
