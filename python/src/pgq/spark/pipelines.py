"""Whole jobs: archive the log, replay from the archive, report failures, drain a queue."""

from __future__ import annotations

import hashlib
import html
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructField, StructType

from pgq.filters import Filter, document
from pgq.spark._name import Name
from pgq.spark._rows import COLUMNS, ServerError, ask, column_names, connect, schema_of
from pgq.spark.functions import matches
from pgq.spark.options import Options

__all__ = ["Archived", "Drained", "archive", "dlq_report", "drain", "read_archive", "replay"]

Say = Callable[[str], None]

ARCHIVE_SCHEMA = StructType(
    [
        *(
            StructField(field.name, field.dataType)
            for field in schema_of(column_names(more=True))
            if field.name != "attempt"
        ),
        StructField("era", StringType()),
        StructField("day", DateType()),
    ]
)


def _quiet(line: str) -> None:
    pass


def _dsn(dsn: str | None) -> str:
    return Options({}, (), "a pipeline", dsn or "").dsn


# Archive


@dataclass(frozen=True)
class Archived:
    """An era that was copied and confirmed."""

    era: int
    messages: int
    checksum: int
    path: str


def archive(
    spark: SparkSession,
    target: str,
    *,
    dsn: str | None = None,
    replica: str | None = None,
    wait: timedelta = timedelta(days=7),
    partitions: int = 0,
    say: Say = _quiet,
) -> list[Archived]:
    """Copy the closed eras of the log to Parquet, by topic and day, and let them be emptied.

    Each era is read back and compared, in number and checksum, before the server is told. From
    the first call on, eras wait for their copy, for `wait` beyond their retention at most.

    :param target: a directory for this database, such as ``file:///archive`` or ``s3a://bucket/q``.
    :param replica: a standby to read from.
    """
    dsn = _dsn(dsn)
    done: list[Archived] = []
    with connect(dsn, "pgq spark archive") as conn:
        ask(conn, "select pgq.archive_wait(%s)", wait)
        # A replica can only be waited for if what is done here is written at once.
        ask(
            conn,
            "select set_config('synchronous_commit', 'local', false)"
            " where current_setting('synchronous_commit') = 'off'",
        )
        while True:
            found = ask(
                conn, "select era, started_at, slot, messages, unused from pgq.archive_next()"
            )
            if not found:
                return done
            ((era, started, slot, messages, unused),) = found
            name = f"{era}-{started.astimezone(UTC):%Y%m%dT%H%M%SZ}"
            path = f"{target.rstrip('/')}/era={name}"
            say(f"era {era}: {messages} messages to {path}")
            count = checksum = 0
            if messages:
                options = {"dsn": dsn, "mode": "log", "slot": slot, "includeAll": "true"}
                if replica:
                    _await_replica(conn, replica)
                    options["replica"] = replica
                rows = _read_log(spark, unused, **options, numPartitions=partitions)
                with _setting(spark, "spark.sql.maxConcurrentOutputFileWriters", "64"):
                    rows.write.partitionBy("topic", "day").mode("overwrite").parquet(path)
                count, checksum = _verify(read_archive(spark, target, path))
            ask(conn, "select pgq.archived(%s, %s, %s)", era, count, checksum)
            say(f"era {era}: {count} messages confirmed, checksum {checksum}")
            done.append(Archived(era, count, checksum, path))


def _read_log(spark: SparkSession, unused: list[str], **options: Any) -> DataFrame:
    """Return the messages with all columns of the archive, reading only those that are used."""
    fields = ARCHIVE_SCHEMA.fields[:-2]
    used = [field for field in fields if COLUMNS[field.name][2] not in unused]
    log = spark.read.format("pgq").schema(StructType(used)).options(**options).load()
    return log.select(
        *(
            F.col(field.name)
            if field in used
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in fields
        ),
        F.to_date("timestamp").alias("day"),
    )


def _await_replica(conn: psycopg.Connection[Any], replica: str, patience: float = 600) -> None:
    """Wait until a standby has replayed what the primary has written."""
    ((written,),) = ask(conn, "select pg_current_wal_lsn()::text")
    deadline = time.monotonic() + patience
    with connect(replica, "pgq spark archive") as standby:
        while True:
            ((ready, place),) = ask(
                standby,
                "select not pg_is_in_recovery() or pg_last_wal_replay_lsn() >= %s::pg_lsn,"
                " pg_last_wal_replay_lsn()::text",
                written,
            )
            if ready:
                return
            if time.monotonic() > deadline:
                raise ServerError(
                    f"the replica is at {place} and has not come to {written} in"
                    f" {patience:.0f} seconds",
                    hint="Read from the primary, or look why it lags behind.",
                )
            time.sleep(0.2)


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Give a setting of the session a value for a while.

    This one: as long as they are few, the files of a task are written side by side, and its rows
    need not be sorted.
    """
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def read_archive(spark: SparkSession, target: str, *paths: str) -> DataFrame:
    """Return what `archive` has written, all of it or some paths of it."""
    reader = spark.read.schema(ARCHIVE_SCHEMA).option("basePath", target)
    return reader.parquet(*(paths or [target]))


def _verify(rows: DataFrame) -> tuple[int, int]:
    """Return the number of messages and their checksum, as pgq.archived computes it."""
    bar, micros = F.lit("|"), F.unix_micros("timestamp")
    line = F.concat("id", bar, "topic", bar, "priority", bar, "headers", bar, "value", bar, micros)
    digest = F.conv(F.substring(F.md5(line), 1, 8), 16, 10).cast("long")
    total = rows.agg(F.count("*").alias("n"), F.coalesce(F.sum(digest), F.lit(0)).alias("sum"))
    (found,) = total.collect()
    return int(found["n"]), int(found["sum"])


# Replay


def replay(
    spark: SparkSession,
    source: str,
    *,
    dsn: str | None = None,
    topic: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    filter: Filter = None,
    to: str | None = None,
    name: str | None = None,
    say: Say = _quiet,
) -> int:
    """Publish archived messages again: once, however often it is started; return how many.

    :param filter: a filter document on headers and payload, evaluated by Spark.
    :param to: the topic to publish to; their own if None.
    :param name: what makes it the same replay; made from the other parameters if None.
    """
    dsn = _dsn(dsn)
    wanted = document(filter)
    asked = json.dumps(
        [source, topic, str(since), str(until), wanted, to], sort_keys=True, default=str
    )
    writer = f"replay {name or hashlib.sha256(asked.encode()).hexdigest()[:16]}"
    with connect(dsn, "pgq spark replay") as conn:
        ((before,),) = ask(conn, "select pgq.writer_epoch(%s)", writer)
        if before is not None:
            say(f"{writer}: published before, nothing to do")
            return 0
        if wanted is not None:
            ask(conn, "select pgq.compile_filter(%s::jsonb)", json.dumps(wanted))
    rows = read_archive(spark, source)
    if topic is not None:
        rows = rows.where(F.col("topic") == topic)
    for moment, after in ((since, True), (until, False)):
        if moment is not None:
            column, day = F.col("timestamp"), F.col("day")
            rows = rows.where(column >= moment if after else column < moment)
            # Days are those of the session's time zone: one more, so that none is missed.
            edge = moment.date() + timedelta(days=-1 if after else 1)
            rows = rows.where(day >= edge if after else day <= edge)
    if wanted is not None:
        rows = rows.where(matches(F.lit(json.dumps(wanted)), F.col("headers"), F.col("value")))
    # A dead letter that was replayed is in two eras.
    rows = rows.dropDuplicates(["id"]).withColumn("topic", F.lit(to) if to else F.col("topic"))
    names = ("topic", "value", "headers", "key", "priority", "sender", "recipient", "reply_to")
    out = rows.select(*names, "correlation_id").write.format("pgq").mode("append")
    out.options(dsn=dsn, writer=writer, epoch=0).save()
    with connect(dsn, "pgq spark replay") as conn:
        ((size,),) = ask(conn, "select size from pgq.writer where writer = %s", writer)
    say(f"{writer}: {size} messages published")
    return int(size)


# Dead letters


def dlq_report(
    spark: SparkSession, target: str | None = None, *, dsn: str | None = None, say: Say = _quiet
) -> DataFrame:
    """Return failures by queue, reason, error and hour; with a target, write a page with plots."""
    letters = spark.read.format("pgq_dead_letter").options(dsn=_dsn(dsn)).load()
    report = (
        letters.groupBy(
            "queue",
            "reason",
            F.substring(F.coalesce("error", F.lit("")), 1, 200).alias("error"),
            F.date_trunc("hour", "failed_at").alias("hour"),
        )
        .agg(F.count("*").alias("messages"), F.max("attempts").alias("attempts"))
        .orderBy(F.desc("messages"), "queue", "reason", "error", "hour")
    )
    if target is not None:
        rows = report.collect()
        Path(target).write_text(_page(rows), encoding="utf-8")
        say(f"{sum(row['messages'] for row in rows)} dead letters, report in {target}")
    return report


def _page(rows: list[Row]) -> str:
    def totals(name: str) -> list[tuple[str, int]]:
        sums: dict[str, int] = {}
        for row in rows:
            label = f"{row[name]:%Y-%m-%d %H:00}" if name == "hour" else str(row[name] or "(none)")
            sums[label] = sums.get(label, 0) + row["messages"]
        if name == "hour":
            return sorted(sums.items())[-48:]
        return sorted(sums.items(), key=lambda item: -item[1])[:20]

    plots = "".join(
        f"<h2>By {name}</h2>{_bars(totals(name))}" for name in ("queue", "reason", "error", "hour")
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(str(row[name]))}</td>"
            for name in ("queue", "reason", "error", "hour", "messages", "attempts")
        )
        + "</tr>"
        for row in rows[:1000]
    )
    total = sum(row["messages"] for row in rows)
    return (
        "<!doctype html><meta charset=utf-8><title>Dead letters</title>"
        "<style>body{font:14px sans-serif;margin:2em}td,th{padding:2px 12px;text-align:left}"
        "rect{fill:#4a7ab5}</style>"
        f"<h1>{total} dead letters</h1>{plots}<h2>All</h2><table><tr><th>queue<th>reason<th>error"
        f"<th>hour<th>messages<th>attempts</tr>{body}</table>\n"
    )


def _bars(items: list[tuple[str, int]]) -> str:
    if not items:
        return "<p>none</p>"
    most = max(count for _, count in items)
    bars = "".join(
        f'<text x="0" y="{20 * i + 14}">{html.escape(label[:48])}</text>'
        f'<rect x="360" y="{20 * i + 2}" width="{max(1, 400 * count // most)}" height="16"/>'
        f'<text x="{370 + 400 * count // most}" y="{20 * i + 14}">{count}</text>'
        for i, (label, count) in enumerate(items)
    )
    return f'<svg width="900" height="{20 * len(items) + 4}">{bars}</svg>'


# Drain


@dataclass(frozen=True)
class Drained:
    """What `drain` has done."""

    batches: int
    written: int
    refused: int


def drain(
    spark: SparkSession,
    topic: str,
    target: str,
    *,
    dsn: str | None = None,
    filter: Filter = None,
    transform: Callable[[DataFrame], DataFrame] | None = None,
    n: int = 100_000,
    name: str | None = None,
    say: Say = _quiet,
) -> Drained:
    """Move a queue's messages to Parquet, until it is empty.

    Messages are claimed in numbered batches. The rows of a batch that `transform` returns are
    written to the batch's own directory and acknowledged; those whose column ``error`` is not null
    are given back with that error. Started again after a crash, it repeats the batch it was at.

    :param transform: a function of the messages that keeps ``id`` and may add ``error``.
    :param name: whose batches these are; made from topic and target if None.
    """
    dsn = _dsn(dsn)
    consumer = name or f"drain {hashlib.sha256(f'{topic} {target}'.encode()).hexdigest()[:12]}"
    wanted = document(filter)
    shape = None if wanted is None else json.dumps(wanted)
    batches = written = refused = 0
    queue = Name(dsn, topic, consumer, timedelta(seconds=30), None)
    batch = queue.begin()
    try:
        while True:
            batch += 1
            claimed = queue.claim(batch, shape, n)
            if claimed is None:
                return Drained(batches, written, refused)
            lease, size = claimed
            reader = spark.read.format("pgq").options(dsn=dsn, mode="claim", leaseId=lease)
            good, bad = _transformed(reader.options(n=size).load(), transform)
            errors = _errors(bad)
            good.write.mode("overwrite").parquet(f"{target.rstrip('/')}/batch={batch}")
            for error, ids in errors.items():
                queue.ask("select pgq.nack(%s, %s::bigint[], error => %s)", lease, ids, error)
            queue.finish(batch)
            failed = sum(map(len, errors.values()))
            batches, written, refused = batches + 1, written + size - failed, refused + failed
            say(f"batch {batch}: {size - failed} messages written, {failed} given back")
    finally:
        queue.end()


def _transformed(
    rows: DataFrame, transform: Callable[[DataFrame], DataFrame] | None
) -> tuple[DataFrame, DataFrame | None]:
    out = rows if transform is None else transform(rows)
    if "id" not in out.columns:
        raise ValueError("the transformation has to keep the column 'id'")
    if "error" not in out.columns:
        return out, None
    return out.where(F.col("error").isNull()).drop("error"), out.where(F.col("error").isNotNull())


def _errors(bad: DataFrame | None) -> dict[str, list[int]]:
    """Return the ids of refused messages by their error."""
    if bad is None:
        return {}
    table = bad.select("id", F.col("error").cast("string")).dropDuplicates(["id"]).toArrow()
    found: dict[str, list[int]] = {}
    for id, error in zip(table["id"].to_pylist(), table["error"].to_pylist(), strict=True):
        found.setdefault(error, []).append(id)
    return found


def table(rows: list[tuple[Any, ...]], *titles: str) -> str:
    """Return rows as a table of text, for the summary at the end of a job."""
    lines = [titles, *(tuple(str(value) for value in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    return "\n".join(
        "  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
