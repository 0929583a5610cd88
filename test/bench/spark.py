"""Spark against plain JDBC and COPY, in messages a second."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame, SparkSession

import pgq.spark
from bench.cluster import Bench
from bench.report import Section
from harness import java
from harness.paths import ROOT
from harness.spark import build
from pgq import embedded

FLOOR = {"claim": 0.8, "stream": 0.6, "write": 0.6, "archive": 0.5}
WHAT = {
    "claim": "claim, read and acknowledge",
    "stream": "stream in batches of 100,000",
    "write": "write with staging",
    "archive": "archive to Parquet",
}
PLAIN = {
    "claim": "JDBC read of the table",
    "stream": "JDBC read of the table",
    "write": "COPY of the same rows by psql",
    "archive": "JDBC to Parquet",
}
SETTINGS: dict[str, embedded.Setting] = {
    "jit": False,
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "max_parallel_workers_per_gather": 0,
}


class Job:
    """Spark and a server of its own, with so many messages."""

    def __init__(self, server: embedded.Server, messages: int, runs: int) -> None:
        self.server = server
        self.messages = messages
        self.runs = runs
        self.dsn = server.dsn()
        self.db: psycopg.Connection[Any] = psycopg.connect(self.dsn, autocommit=True)
        self.db.execute("create extension pgq")
        options = "-XX:+UseParallelGC"
        self.spark: SparkSession = build(
            "local[2]",
            **{
                "spark.jars": str(java.jdbc_driver()),
                "spark.driver.memory": "3g",
                "spark.driver.extraJavaOptions": options,
            },
        )
        pgq.spark.register(self.spark, self.dsn)
        self.scratch = Path(tempfile.mkdtemp(prefix="pgq-bench-"))

    def close(self) -> None:
        self.spark.stop()
        self.db.close()
        shutil.rmtree(self.scratch)

    def fill(self, queue: str) -> None:
        """Publish messages of about 200 bytes, as many as are missing from the backlog."""
        self.db.execute("select pgq.create_queue(%s)", [queue])
        row = self.db.execute("select pgq.backlog(%s)", [queue]).fetchone()
        assert row is not None
        for first in range(row[0], self.messages, 100_000):
            self.db.execute(
                "insert into pgq.message (topic, headers, payload)"
                " select %s, jsonb_build_object('type', (array['a', 'b'])[1 + i %% 2]),"
                " jsonb_build_object('n', i, 'text', repeat('x', 150))"
                " from generate_series(%s::int, %s::int) i",
                [queue, first + 1, min(first + 100_000, self.messages)],
            )
        self.db.execute("vacuum analyze pgq.message")
        self.db.execute("checkpoint")

    def best(self, run: Callable[[], None], before: Callable[[], None] = lambda: None) -> float:
        """Return messages per second of the best run."""
        best = 0.0
        for _ in range(self.runs):
            before()
            started = time.monotonic()
            run()
            best = max(best, self.messages / (time.monotonic() - started))
        print(f"{run.__name__}: {best:,.0f} messages/s", file=sys.stderr, flush=True)
        return best

    def jdbc(self) -> DataFrame:
        """The table, read in two partitions as the sources are."""
        address = conninfo_to_dict(self.server.dsn(tcp=True))
        row = self.db.execute("select min(id), max(id) from pgq.message").fetchone()
        assert row is not None
        return self.spark.read.jdbc(
            f"jdbc:postgresql://{address['host']}:{address['port']}/{address['dbname']}",
            "(select id, topic, group_key, payload::text as value, headers::text as headers,"
            " published_at, priority from pgq.message) m",
            column="id",
            lowerBound=row[0],
            upperBound=row[1],
            numPartitions=2,
            properties={
                "user": str(address["user"]),
                "password": str(address["password"]),
                "driver": "org.postgresql.Driver",
                "fetchsize": "10000",
            },
        )

    def read_jdbc(self) -> None:
        self.jdbc().write.format("noop").mode("overwrite").save()

    def read_claim(self) -> None:
        with pgq.spark.claim(
            self.spark, "bench", n=self.messages, dsn=self.dsn, partitions=2
        ) as claim:
            assert claim.size == self.messages
            claim.df.write.format("noop").mode("overwrite").save()

    def give_back(self) -> None:
        """Let the same messages be claimed again: what is in the log stays the same."""
        self.db.execute("delete from pgq.journal")
        self.db.execute("delete from pgq.ready")
        self.db.execute(
            "insert into pgq.ready select q.queue_id, null, pgq._rank(0, false, min(m.id)), 0,"
            " count(*), pg_current_xact_id(), null, false, null,"
            " range_agg(int8range(m.id, m.id + 1)) from pgq.message m, pgq.queue q"
            " where m.topic = 'bench' and q.name = 'bench' group by q.queue_id, m.id / 128"
        )
        self.db.execute("vacuum analyze pgq.ready")

    def stream(self) -> None:
        place = tempfile.mkdtemp(dir=self.scratch)
        source = self.spark.readStream.format("pgq").options(topic="bench", consumer=place)
        df = source.options(maxMessagesPerTrigger=100_000, numPartitions=2).load()
        query = df.writeStream.format("noop").option("checkpointLocation", place)
        query.trigger(availableNow=True).start().awaitTermination()

    def write(self) -> None:
        rows = self.spark.read.parquet(str(self.scratch / "rows"))
        rows.write.format("pgq").option("topic", "sink").mode("append").save()

    def copy(self) -> None:
        command = "\\copy pgq.message (topic, headers, payload) from rows.csv (format csv)"
        subprocess.run(
            [self.server.program("psql"), "-X", "-q", "-c", command],
            env=self.server.environment(),
            cwd=self.scratch,
            check=True,
        )

    def empty(self) -> None:
        """A sink queue and a log without messages, as both ways of writing begin."""
        self.db.execute("select pgq.drop_queue(name, true) from pgq.queue")
        self.db.execute("truncate pgq.message, pgq.journal, pgq.staged, pgq.ready")
        self.db.execute("select pgq.create_queue('sink')")
        self.db.execute("checkpoint")

    def archive(self) -> None:
        (done,) = pgq.spark.archive(
            self.spark, str(self.scratch / "archive"), dsn=self.dsn, partitions=2
        )
        assert done.messages == self.messages

    def forget_archive(self) -> None:
        shutil.rmtree(self.scratch / "archive", ignore_errors=True)
        self.db.execute("update pgq.era set archived_at = null")

    def copy_parquet(self) -> None:
        self.jdbc().write.mode("overwrite").parquet(str(self.scratch / "copy"))

    def measure(self) -> dict[str, tuple[float, float]]:
        found: dict[str, tuple[float, float]] = {}
        self.fill("bench")
        self.read_jdbc()
        self.read_claim()
        self.give_back()
        table = self.best(self.read_jdbc)
        found["claim"] = (self.best(self.read_claim, self.give_back), table)
        found["stream"] = (self.best(self.stream, self.give_back), table)

        rows = self.jdbc().select("value", "headers")
        rows.coalesce(2).write.parquet(str(self.scratch / "rows"))
        with (self.scratch / "rows.csv").open("wb") as file, self.db.cursor() as cursor:
            query = "copy (select 'sink', headers, payload from pgq.message) to stdout (format csv)"
            with cursor.copy(query) as copy:
                for data in copy:
                    file.write(data)
        # The log is one closed era with finished messages.
        self.db.execute("select pgq.archive_wait('1 day')")
        self.db.execute("delete from pgq.ready")
        self.db.execute("call pgq.maintain()")
        self.db.execute("update pgq.era set started_at = started_at - interval '2 days'")
        self.db.execute("call pgq.maintain()")
        parquet = self.best(self.copy_parquet)
        found["archive"] = (self.best(self.archive, self.forget_archive), parquet)

        copied = self.best(self.copy, self.empty)
        found["write"] = (self.best(self.write, self.empty), copied)
        return found


def run(bench: Bench, section: Section) -> None:
    messages, runs = bench.pick(20_000, 1_000_000), bench.pick(1, 2)
    section.say(
        f"{messages:,} messages of about 200 bytes, Spark with two cores, its sources in two "
        "partitions, on a server of its own with 1 GB of shared buffers: messages a second, of "
        f"{runs} runs the best, after one that warms the JVM. Reading goes to Spark's sink noop; "
        "nothing is claimed, acknowledged or checked on the plain side."
    )
    with embedded.start(extension_dir=ROOT, settings=SETTINGS) as server:
        job = Job(server, messages, runs)
        try:
            found = job.measure()
        finally:
            job.close()
    rows = []
    for name, (ours, plain) in found.items():
        verdict = section.at_least(f"{WHAT[name]} : {PLAIN[name]}", ours / plain, FLOOR[name])
        cells = [f"{ours:,.0f}", PLAIN[name], f"{plain:,.0f}", f"{ours / plain:.2f}", verdict]
        rows.append([WHAT[name], *cells])
    section.table(["pgq", "messages/s", "plain", "messages/s", "ratio", ""], rows)
