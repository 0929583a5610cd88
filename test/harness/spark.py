"""Fixtures of all tests with Spark: a session, a server that can be restarted, messages."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

import pgq.spark
from harness import java
from harness.paths import ROOT, TEST
from harness.server import embedded_server
from pgq import embedded

Fill = Callable[..., None]

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Hadoop's default checkpoint manager runs a program for each file, an eighth of the time of a short
# stream. Killed drivers use the default.
QUICK = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.ui.showConsoleProgress": "false",
}


def prepare() -> None:
    """Set the paths of Java and Python for Spark."""
    os.environ |= {
        "JAVA_HOME": java.home(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def build(master: str, **more: str) -> SparkSession:
    """Start a session that is quiet and quick."""
    prepare()
    builder = SparkSession.builder.master(master)
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in (settings | more).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="session")
def server() -> Iterator[embedded.Server]:
    with embedded_server() as server:
        yield server


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    """One for all tests; a task is tried three times."""
    session = build("local[2,3]", **QUICK, **{"spark.jars": str(java.jdbc_driver())})
    yield session
    session.stop()


@pytest.fixture
def spark(session: SparkSession, dsn: str) -> SparkSession:
    """The session, in which pgq means the test's database."""
    pgq.spark.register(session, dsn)
    return session


@pytest.fixture
def fill(db: psycopg.Connection) -> Fill:
    """A function that makes a queue with messages 1 to n, every third of type a."""

    def fill(queue: str = "work", n: int = 1000, first: int = 1, **policy: str) -> None:
        rest = "".join(f", {name} => '{value}'" for name, value in policy.items())
        db.execute(f"select pgq.create_queue(%s{rest})".encode(), [queue])
        db.execute(
            "insert into pgq.message (topic, headers, payload)"
            " select %s, jsonb_build_object('type', case when i %% 3 = 0 then 'a' else 'b' end),"
            " jsonb_build_object('n', i) from generate_series(%s::int, %s::int) i",
            [queue, first, first + n - 1],
        )

    return fill


def stats(db: psycopg.Connection, queue: str = "work") -> tuple[int, int, int]:
    """How many messages are ready, leased and waiting for a retry."""
    row = db.execute(
        "select ready, leased, scheduled from pgq.queue_stats where queue = %s", [queue]
    ).fetchone()
    assert row is not None
    return (row[0], row[1], row[2])


def close_era(db: psycopg.Connection) -> None:
    """Begin a new era, as if enough time had passed."""
    db.execute("call pgq.maintain()")
    db.execute("update pgq.era set started_at = started_at - interval '2 days'")
    db.execute("call pgq.maintain()")


def maintain_until(db: psycopg.Connection, messages: int) -> None:
    """Call maintain() until the log has so many messages; readers that are ending delay it."""
    deadline = time.monotonic() + 60
    while db.execute("select count(*) from pgq.message").fetchone() != (messages,):
        assert time.monotonic() < deadline, "the log is not truncated"
        db.execute("call pgq.maintain()")
        time.sleep(0.05)


def run_until_killed(dsn: str, place: Path, sink: str, *steps: str) -> None:
    """Run a stream in a driver that is killed at each step, then to its end."""
    for step in (*steps, "none"):
        for _ in range(3):
            output = run_child(dsn, place, sink, step)
            # Spark waits ten seconds for a Python worker, which on a busy machine is too short.
            if "Python worker failed to connect back" not in output:
                break
        if ("finished" in output.splitlines()) != (step == "none"):
            raise AssertionError(f"at {step!r} the driver ended like this:\n{output[-4000:]}")


def run_child(dsn: str, place: Path, sink: str, step: str) -> str:
    """Run one driver to its end; return its output."""
    # A file, because processes that outlive the driver would keep a pipe open.
    log_file = place / "log"
    with log_file.open("w") as log:
        subprocess.run(
            [sys.executable, "-m", "harness.spark_child", dsn, str(place), sink, step],
            cwd=TEST,
            env=os.environ | {"PYTHONPATH": f"{TEST}:{ROOT / 'python/src'}"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=900,  # a busy machine takes minutes to start a driver
            check=False,
        )
    return log_file.read_text()
