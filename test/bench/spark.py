"""Spark beside plain JDBC and COPY, in messages per second."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame, SparkSession

import pgq.spark
from bench.cluster import Bench
from bench.report import Section
from harness import java
from harness.damage import damage
from harness.paths import ROOT
from harness.spark import build
from pgq import embedded

FLOOR = {"claim": 1.0, "stream": 0.9, "write": 0.8, "archive": 0.8, "commit": 0.6}
WHAT = {
    "claim": "claim, read and acknowledge",
    "stream": "stream in batches of 100,000",
    "write": "write with staging",
    "archive": "archive to Parquet",
    "commit": "read, write to a table and acknowledge in one transaction",
}
PLAIN = {
    "claim": "JDBC read of the table",
    "stream": "JDBC read of the table",
    "write": "COPY of the same rows by psql",
    "archive": "JDBC to Parquet",
    "commit": "JDBC write of the same rows",
}
BATCH = 100_000
SETTINGS: dict[str, embedded.Setting] = {
    "jit": False,
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
}


Run = Callable[[], float | None]  # the seconds that count, if not all of them do


class Work(NamedTuple):
    """Seconds of CPU, by the processes that took them."""

    server: float
    python: float
    java: float

    @property
    def all(self) -> float:
        return sum(self)


class Compared(NamedTuple):
    """Messages per second and seconds of CPU of both sides."""

    ours: float
    plain: float
    our_work: Work
    plain_work: Work


class Job:
    """Spark with its own server and messages."""

    def __init__(self, server: embedded.Server, messages: int, runs: int, warm: int) -> None:
        self.server = server
        self.messages = messages
        self.runs, self.warm = runs, warm
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
                # The default manager of Hadoop starts a program for each file.
                "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution"
                ".streaming.checkpointing.FileSystemBasedCheckpointFileManager",
            },
        )
        pgq.spark.register(self.spark, self.dsn)
        self.scratch = Path(tempfile.mkdtemp(prefix="pgq-bench-"))
        self.starts: list[float] = []
        self.fixed = self.fixed_work = 0.0

    def close(self) -> None:
        self.spark.stop()
        self.db.close()
        shutil.rmtree(self.scratch)

    def fill(self, queue: str) -> None:
        """Publish messages of about 200 bytes until the backlog is full."""
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

    def compare(self, ours: Run, before: Callable[[], None], plain: Run) -> Compared:
        """Run both sides in turns; return the medians."""
        spent: dict[Run, list[tuple[float, Work]]] = {plain: [], ours: []}
        for number in range(-self.warm, self.runs):
            for run in (plain, ours):
                if run is ours or plain.__name__ == "copy":
                    before()
                work, started = self.work(), time.monotonic()
                counts = run()
                took = counts or time.monotonic() - started
                # Python workers that end with their parent take their CPU with them.
                cpu = Work(
                    *(max(0.0, now - then) for now, then in zip(self.work(), work, strict=True))
                )
                if number >= 0:
                    spent[run].append((took, cpu))
                parts = ", ".join(f"{name} {value:.2f}" for name, value in cpu._asdict().items())
                what = f"{took:.1f} s, {cpu.all:.2f} s of CPU: {parts}"
                print(f"{run.__name__}: {what}", file=sys.stderr, flush=True)
        (plain_time, plain_work), (our_time, our_work) = (
            (
                statistics.median(t for t, _ in times),
                sorted((w for _, w in times), key=lambda w: w.all)[len(times) // 2],
            )
            for times in spent.values()
        )
        rates = self.messages / our_time, self.messages / plain_time
        return Compared(*rates, our_work, plain_work)

    def work(self) -> Work:
        """Return seconds of CPU of this process, the server, and all their children."""
        row = self.db.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        processes: dict[int, tuple[int, int, int, str]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    name, _, rest = (entry / "stat").read_text().rpartition(")")
                    fields = rest.split()
                    own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
                    processes[int(entry.name)] = (int(fields[1]), own, ended, name)
        server = processes[row[0]][0]

        def belongs(pid: int, root: int) -> bool:
            return pid == root or (pid in processes and belongs(processes[pid][0], root))

        found = {"server": 0, "python": 0, "java": 0}
        for pid, (_, own_ticks, ended_ticks, name) in processes.items():
            if belongs(pid, server):
                found["server"] += own_ticks + ended_ticks
            elif belongs(pid, os.getpid()):
                found["java" if name.endswith("(java") else "python"] += own_ticks
                found["python"] += ended_ticks  # the JVM starts Python processes
        per_second = os.sysconf("SC_CLK_TCK")
        return Work(**{kind: ticks / per_second for kind, ticks in found.items()})

    def address(self) -> tuple[str, dict[str, str]]:
        """Return the JDBC URL of the server, and the properties of a connection."""
        address = conninfo_to_dict(self.server.dsn(tcp=True))
        return (
            f"jdbc:postgresql://{address['host']}:{address['port']}/{address['dbname']}",
            {
                "user": str(address["user"]),
                "password": str(address["password"]),
                "driver": "org.postgresql.Driver",
            },
        )

    def jdbc(self) -> DataFrame:
        """Return the table, read in two partitions like pgq's sources."""
        url, properties = self.address()
        row = self.db.execute("select min(id), max(id) from pgq.message").fetchone()
        assert row is not None
        return self.spark.read.jdbc(
            url,
            "(select id, topic, group_key, payload::text as value, headers::text as headers,"
            " published_at, priority from pgq.message) m",
            column="id",
            lowerBound=row[0],
            upperBound=row[1],
            numPartitions=2,
            properties=properties | {"fetchsize": "10000"},
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
        """Make the same messages ready again, without changing the log."""
        self.db.execute("delete from pgq.journal")
        self.db.execute("delete from pgq.ready")
        self.db.execute(
            "insert into pgq.ready (queue_id, rank, attempt, size, xid, grouped, ids)"
            " select q.queue_id, pgq._rank(0, false, min(m.id)), 0, count(*),"
            " pg_current_xact_id(), false, range_agg(int8range(m.id, m.id + 1))"
            " from pgq.message m, pgq.queue q"
            " where m.topic = 'bench' and q.name = 'bench' group by q.queue_id, m.id / 128"
        )
        self.db.execute("vacuum analyze pgq.ready")

    def stream(self) -> float:
        """Return the seconds of the batches, without the start of the stream."""
        started = time.monotonic()
        place = tempfile.mkdtemp(dir=self.scratch)
        source = self.spark.readStream.format("pgq").options(topic="bench", consumer=place)
        df = source.options(maxMessagesPerTrigger=BATCH, numPartitions=2).load()
        writer = df.writeStream.format("noop").option("checkpointLocation", place)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
        assert sum(batch["numInputRows"] for batch in batches) == self.messages
        spent: float = sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000
        self.starts.append(time.monotonic() - started - spent)
        return spent

    def commit(self) -> float:
        """Return the seconds of the commits, which include reading and writing the rows."""
        place = tempfile.mkdtemp(dir=self.scratch)
        source = self.spark.readStream.format("pgq").options(topic="bench", consumer=place)
        df = source.options(maxMessagesPerTrigger=self.messages, numPartitions=2).load()
        self.db.execute("truncate target")
        spent: list[float] = []

        def write(rows: DataFrame, batch: int) -> None:
            started = time.monotonic()
            assert pgq.spark.commit(rows.select("id", "value"), batch, table="target")
            spent.append(time.monotonic() - started)

        query = df.writeStream.foreachBatch(write).option("checkpointLocation", place)
        query.trigger(availableNow=True).start().awaitTermination()
        return sum(spent)

    def write_jdbc(self) -> float:
        self.db.execute("truncate target")
        url, properties = self.address()
        rows = self.spark.read.parquet(str(self.scratch / "target"))
        started = time.monotonic()
        rows.write.jdbc(url, "target", mode="append", properties=properties)
        return time.monotonic() - started

    def nothing(self) -> tuple[float, float]:
        """Run a stream of Spark's own that reads nothing, with as many batches.

        Return the seconds of one batch, and the seconds of CPU of the whole stream.
        """
        place = tempfile.mkdtemp(dir=self.scratch)
        source = self.spark.readStream.format("rate-micro-batch")
        df = source.options(rowsPerBatch=BATCH, numPartitions=2).load()
        work = self.work().all
        query = df.writeStream.format("noop").option("checkpointLocation", place).start()
        while query.isActive and len(query.recentProgress) < -(-self.messages // BATCH):
            time.sleep(0.01)
        query.stop()
        took: list[float] = [
            batch["durationMs"]["triggerExecution"] for batch in query.recentProgress
        ]
        return statistics.median(took) / 1000, self.work().all - work

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
        """Empty the log and create the sink queue, before each way of writing."""
        self.db.execute("select pgq.drop_queue(name, true) from pgq.queue")
        damage(self.db, "truncate pgq.message, pgq.journal, pgq.staged, pgq.ready")
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
        self.db.execute("delete from pgq.archive_era")

    def copy_parquet(self) -> None:
        self.jdbc().write.mode("overwrite").parquet(str(self.scratch / "copy"))

    def measure(self) -> dict[str, Compared]:
        found: dict[str, Compared] = {}
        self.fill("bench")
        found["claim"] = self.compare(self.read_claim, self.give_back, self.read_jdbc)
        found["stream"] = self.compare(self.stream, self.give_back, self.read_jdbc)
        own = [self.nothing() for _ in range(3)]
        self.fixed, self.fixed_work = map(statistics.median, zip(*own, strict=True))
        self.db.execute("create table target (id bigint, value text)")
        rows = self.jdbc().select("id", "value")
        rows.coalesce(2).write.parquet(str(self.scratch / "target"))
        found["commit"] = self.compare(self.commit, self.give_back, self.write_jdbc)

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
        found["archive"] = self.compare(self.archive, self.forget_archive, self.copy_parquet)
        found["write"] = self.compare(self.write, self.empty, self.copy)
        return found


def run(bench: Bench, section: Section) -> None:
    messages, runs, warm = bench.pick((20_000, 1, 1), (1_000_000, 5, 5))
    section.say(
        f"Messages per second, for {messages:,} messages of about 200 bytes. Spark has two "
        "cores, two partitions per source, and its own server with 1 GB of shared buffers. "
        f"Both sides run in turns. The figures are medians of {runs} runs, after {warm} runs "
        'that warm up the JVM. "Work" is the ratio of the CPU of both sides, plain : pgq (Spark, '
        "its Python processes and the server). Rows that are read go to Spark's noop sink. The "
        "plain side does not claim, acknowledge or check anything."
    )
    with embedded.start(extension_dir=ROOT, settings=SETTINGS) as server:
        job = Job(server, messages, runs, warm)
        try:
            found = job.measure()
        finally:
            job.close()
    rows = []
    own = job.fixed * -(-messages // BATCH)
    for name, (ours, plain, our_work, plain_work) in found.items():
        if name == "stream":  # without Spark's own costs
            ours = messages / max(messages / ours - own, 1e-9)
        verdict = section.at_least(f"{WHAT[name]} : {PLAIN[name]}", ours / plain, FLOOR[name])
        cells = [f"{ours:,.0f}", PLAIN[name], f"{plain:,.0f}", f"{ours / plain:.2f}", verdict]
        work = our_work.all - (job.fixed_work if name == "stream" else 0)
        rows.append([WHAT[name], *cells, f"{plain_work.all / max(work, 1e-9):.2f}"])
    section.table(["pgq", "messages/s", "plain", "messages/s", "ratio", "", "work"], rows)
    whole = found["stream"]
    section.say(
        "For a stream only its batches are counted, without Spark's own costs: "
        f"{job.fixed * 1000:.0f} ms per batch, and {job.fixed_work:.1f} s of CPU for the same "
        "number of batches. They are measured with Spark's source rate-micro-batch, which reads "
        f"nothing. With Spark's own costs the ratio is {whole.ours / whole.plain:.2f}, and the "
        f"ratio of the work is {whole.plain_work.all / whole.our_work.all:.2f}. The start of a "
        f"stream takes {statistics.median(job.starts):.1f} s more, once."
    )
    section.say("Where the CPU goes, in seconds for all messages:")
    section.table(
        ["", "server", "Python or psql", "JVM", "all"],
        [
            [what, *(f"{seconds:.2f}" for seconds in (*work, work.all))]
            for name, (_, _, our_work, plain_work) in found.items()
            for what, work in ((PLAIN[name], plain_work), (WHAT[name], our_work))
        ],
    )
