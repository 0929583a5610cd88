"""Whole jobs: archive the log, replay from the archive, report failures, drain a queue."""

from __future__ import annotations

import hashlib
import html
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote

import psycopg
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructField, StructType

from pgq.filters import Filter, document
from pgq.spark._copy import mounted, publish_files, write_files
from pgq.spark._name import Archive, Name
from pgq.spark._rows import ServerError, ask, column_names, connect, schema_of
from pgq.spark.functions import matches
from pgq.spark.handle import ids_of
from pgq.spark.options import N, dsn_for
from pgq.spark.source import as_frame, reader_of

__all__ = ["Archived", "Drained", "archive", "dlq_report", "drain", "read_archive", "replay"]

Say = Callable[[str], None]
# A function that writes a batch: write(rows, run, number of the batch). See `drain`.
Write = Callable[[DataFrame, str, int], DataFrame | None]

ARCHIVE_SCHEMA = StructType(
    [
        *(
            StructField(field.name, field.dataType)
            for field in schema_of(column_names(more=True, log=True))
            if field.name != "attempt"
        ),
        StructField("era", StringType()),
        StructField("day", DateType()),
    ]
)


# Columns of the archive that have another name in the log.
COLUMN = {"key": "group_key"}
_ERA = re.compile(r"/era=(\d+-\d{8}T\d{6}Z-[0-9a-f]{8})-(\d+)/")


def _quiet(line: str) -> None:
    pass


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
    timeout: timedelta = timedelta(seconds=30),
    say: Say = _quiet,
) -> list[Archived]:
    """Copy the closed eras of the log to Parquet, by topic and day, so that they can be truncated.

    Each copy is read back, and its count and checksum are compared, before the era is reported as
    archived. From the first call on, an era is not truncated before it is archived, for at most
    `wait` beyond its retention. One process archives at a time; a second one waits for the timeout
    and then fails. Nothing is ever overwritten: each attempt to copy an era has its own directory,
    and `read_archive` takes the last one.

    :param target: a directory, such as ``file:///archive`` or ``s3a://bucket/q``.
    :param dsn: the database of the queues; None for that of `register`, or ``PGQ_DSN``.
    :param replica: the connection string of a standby to read from.
    :param wait: how long beyond its retention an era waits for its copy.
    :param partitions: how many tasks read in parallel; 0 to choose by the number of messages.
    :param timeout: after this time without a heartbeat, another process can archive.
    :param say: a function that is called with each line of progress.

    >>> pgq.spark.archive(spark, "s3a://bucket/q", say=print)
    """
    dsn = dsn_for(spark, dsn)
    done: list[Archived] = []
    turn = Archive(dsn, wait, timeout)
    turn.begin()
    try:
        while True:
            found = turn.ask(
                "select era, started_at, slot, messages, unused, copy_id::text, attempt"
                " from pgq.archive_next(%s)",
                turn.owner,
            )
            if not found:
                return done
            ((era, started, slot, messages, unused, copy, attempt),) = found
            name = f"{era}-{started.astimezone(UTC):%Y%m%dT%H%M%SZ}-{copy[:8]}-{attempt}"
            path = f"{target.rstrip('/')}/era={name}"
            say(f"era {era}: {messages} messages to {path}")
            count = checksum = 0
            if messages:
                options = {"dsn": dsn, "mode": "log", "slot": slot, "includeAll": "true"}
                if replica:
                    _await_replica(turn, replica)
                    options["replica"] = replica
                options["numPartitions"] = partitions
                count, checksum = _copy(spark, target, path, unused, options)
            turn.ask(
                "select pgq.archived(%s, %s, %s, %s, %s)",
                era,
                count,
                checksum,
                attempt,
                path if messages else None,
            )
            say(f"era {era}: {count} messages confirmed, checksum {checksum}")
            done.append(Archived(era, count, checksum, path))
    finally:
        turn.end()


def _copy(
    spark: SparkSession, target: str, path: str, unused: list[str], options: dict[str, Any]
) -> tuple[int, int]:
    """Write the messages, and read them back; return how many were read, and their checksum.

    Unused columns are not read from the log.
    """
    fields = ARCHIVE_SCHEMA.fields[:-2]
    used = [field for field in fields if COLUMN.get(field.name, field.name) not in unused]
    directory = mounted(spark, path)
    if directory is not None:
        reader = reader_of(spark, options, StructType(used))
        files = write_files(spark, reader, StructType(fields), directory)
        return publish_files(spark, files)
    with (
        _setting(spark, "spark.sql.maxConcurrentOutputFileWriters", "64"),
        _setting(spark, "spark.sql.session.timeZone", "UTC"),
    ):
        rows = as_frame(spark, options, StructType(used)).select(
            *(
                F.col(field.name)
                if field in used
                else F.lit(None).cast(field.dataType).alias(field.name)
                for field in fields
            ),
            F.to_date("timestamp").alias("day"),
        )
        rows.write.partitionBy("topic", "day").mode("errorifexists").parquet(path)
    return _verify(read_archive(spark, target, path))


def _await_replica(turn: Archive, replica: str, timeout: float = 600) -> None:
    """Wait until a standby has replayed the current WAL of the primary."""
    # Not pg_current_wal_lsn(): with synchronous_commit = off, a commit may not be written yet.
    ((written,),) = turn.ask("select pg_current_wal_insert_lsn()::text")
    deadline = time.monotonic() + timeout
    with connect(replica, "pgq spark archive") as standby:
        while True:
            ((ready, replayed),) = ask(
                standby,
                "select not pg_is_in_recovery() or pg_last_wal_replay_lsn() >= %s::pg_lsn,"
                " pg_last_wal_replay_lsn()::text",
                written,
            )
            if ready:
                return
            if time.monotonic() > deadline:
                raise ServerError(
                    f"the replica is at {replayed} and has not come to {written} in"
                    f" {timeout:.0f} seconds",
                    hint="Read from the primary, or look why it lags behind.",
                )
            time.sleep(0.2)


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Change a setting of the session while the block runs.

    With maxConcurrentOutputFileWriters a task writes its files at the same time while they are few,
    and need not sort its rows.
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
    """Return the messages that `archive` has written, all of them or those of some paths.

    If an era was copied more than once, because an attempt failed, its last copy is read. The
    reader option ``mode=all`` reads exactly the copies that the database has confirmed.
    """
    reader = spark.read.schema(ARCHIVE_SCHEMA).option("basePath", target)
    if paths:
        return reader.parquet(*paths)
    rows = reader.parquet(target)
    found = {part for file in rows.inputFiles() for part in _ERA.findall(unquote(file))}
    last: dict[str, int] = {}
    for era, attempt in found:
        last[era] = max(last.get(era, 0), int(attempt))
    old = [f"{era}-{attempt}" for era, attempt in found if int(attempt) < last[era]]
    return rows.where(~F.col("era").isin(old)) if old else rows


def _verify(rows: DataFrame) -> tuple[int, int]:
    """Return the number of messages and their checksum, as pgq.archived computes it."""
    bar = F.lit("|")
    names = ("id", "topic", "priority", "headers", "value")
    parts: list[Column] = [*map(F.col, names), F.unix_micros("timestamp")]
    nullable = ("sender", "recipient", "reply_to", "correlation_id", "key", "dedup_key")
    for name in (*nullable, "publisher", "deliver_at"):
        parts.append(F.coalesce(F.concat(F.lit("="), F.col(name)), F.lit("-")))
    parts.append(F.coalesce(F.unix_micros("expires_at").cast("string"), F.lit("-")))
    line = F.concat(*[item for part in parts for item in (part, bar)][:-1])
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
    dry_run: bool = False,
    partitions: int = 0,
    say: Say = _quiet,
) -> int:
    """Publish archived messages again; return how many.

    A replay is published once, however often it is started. A replay that finds no message does
    not count as published.

    :param source: the target of `archive`.
    :param dsn: the database of the queues; None for that of `register`, or ``PGQ_DSN``.
    :param topic: only messages of this topic.
    :param since: only messages published at or after this time.
    :param until: only messages published before this time.
    :param filter: a filter document on headers and payload, evaluated by Spark.
    :param to: the topic to publish to; None for the topic of each message.
    :param name: the name that identifies the replay; None to derive it from the other parameters.
    :param dry_run: count the messages, and publish nothing.
    :param partitions: how many tasks publish in parallel; 0 for as many as read.
    :param say: a function that is called with each line of progress.

    >>> pgq.spark.replay(spark, "s3a://bucket/q", topic="orders", to="orders_again")
    """
    dsn = dsn_for(spark, dsn)
    wanted = document(filter)
    asked = json.dumps(
        [source, topic, str(since), str(until), wanted, to], sort_keys=True, default=str
    )
    writer = f"replay {name or hashlib.sha256(asked.encode()).hexdigest()[:16]}"
    with connect(dsn, "pgq spark replay") as conn:
        ((before,),) = ask(conn, "select pgq.writer_epoch(%s)", writer)
        if before is not None and not dry_run:
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
            # Days are in the session's time zone: read one more day, so that none is missed.
            edge = moment.date() + timedelta(days=-1 if after else 1)
            rows = rows.where(day >= edge if after else day <= edge)
    if wanted is not None:
        rows = rows.where(matches(F.lit(json.dumps(wanted)), F.col("headers"), F.col("value")))
    # A replayed dead letter is in two eras.
    rows = rows.dropDuplicates(["id"]).withColumn("topic", F.lit(to) if to else F.col("topic"))
    names = ("topic", "value", "headers", "key", "priority", "sender", "recipient", "reply_to")
    rows = rows.select(*names, "correlation_id")
    if dry_run:
        size = rows.count()
        say(f"{writer}: {size} messages would be published")
        return size
    if partitions:
        rows = rows.coalesce(partitions)
    counted = Observation()
    rows = rows.observe(counted, F.count("*").alias("size"))
    rows.write.format("pgq").mode("append").options(dsn=dsn, writer=writer, epoch=0).save()
    size = int(counted.get["size"])
    found = "published" if size else "found, which is not taken for done"
    say(f"{writer}: {size} messages {found}")
    return size


# Dead letters


def dlq_report(
    spark: SparkSession,
    target: str | None = None,
    *,
    dsn: str | None = None,
    partitions: int = 0,
    say: Say = _quiet,
) -> DataFrame:
    """Return dead letters counted by queue, reason, error and hour.

    Errors that differ only in numbers, ids and quoted values count as one: ``key (id)=(…)``. The
    column ``sample`` has the lowest message id of each row.

    :param target: also write an HTML page with plots to this file.
    :param dsn: the database of the queues; None for that of `register`, or ``PGQ_DSN``.

    >>> pgq.spark.dlq_report(spark, "failures.html").show()
    """
    reader = spark.read.format("pgq_dead_letter").options(dsn=dsn_for(spark, dsn))
    letters = reader.options(numPartitions=partitions).load()
    report = (
        letters.groupBy(
            "queue",
            "reason",
            F.substring(folded(F.coalesce("error", F.lit(""))), 1, 200).alias("error"),
            F.date_trunc("hour", "failed_at").alias("hour"),
        )
        .agg(
            F.count("*").alias("messages"),
            F.max("attempts").alias("attempts"),
            F.min("id").alias("sample"),
        )
        .orderBy(F.desc("messages"), "queue", "reason", "error", "hour")
    )
    if target is not None:
        rows = report.collect()
        Path(target).write_text(_page(rows), encoding="utf-8")
        say(f"{sum(row['messages'] for row in rows)} dead letters, report in {target}")
    return report


def folded(error: Column) -> Column:
    """Return the error with ids, numbers and quoted values replaced, to group equal causes."""
    error = F.regexp_replace(error, r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "…")
    error = F.regexp_replace(error, r"=\([^()]*\)", "=(…)")
    error = F.regexp_replace(error, r"'[^']*'", "'…'")
    error = F.regexp_replace(error, r"\b0x[0-9a-fA-F]+\b", "…")
    return F.regexp_replace(error, r"(?<![\w.])[-+]?\d+(\.\d+)?(?![\w.]*\d)", "…")


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
            for name in ("queue", "reason", "error", "hour", "messages", "attempts", "sample")
        )
        + "</tr>"
        for row in rows[:1000]
    )
    total = sum(row["messages"] for row in rows)
    return (
        "<!doctype html><meta charset=utf-8><title>Dead letters</title>"
        "<style>body{font:14px sans-serif;margin:2em}td,th{padding:2px 12px;text-align:left}"
        "td{max-width:40em;overflow-wrap:anywhere;vertical-align:top}"
        "rect{fill:#4a7ab5}</style>"
        f"<h1>{total} dead letters</h1>{plots}<h2>All</h2><table><tr><th>queue<th>reason<th>error"
        f"<th>hour<th>messages<th>attempts<th>sample</tr>{body}</table>\n"
    )


def short(label: str, most: int = 48) -> str:
    """Return a label in one line, cut to a maximum length."""
    label = " ".join(label.split())
    return label if len(label) <= most else label[: most - 1] + "…"


def _bars(items: list[tuple[str, int]]) -> str:
    if not items:
        return "<p>none</p>"
    most = max(count for _, count in items)
    bars = "".join(
        f'<text x="0" y="{20 * i + 14}">{html.escape(short(label))}</text>'
        f'<rect x="360" y="{20 * i + 2}" width="{max(1, 400 * count // most)}" height="16"/>'
        f'<text x="{370 + 400 * count // most}" y="{20 * i + 14}">{count}</text>'
        for i, (label, count) in enumerate(items)
    )
    return f'<svg width="900" height="{20 * len(items) + 4}">{bars}</svg>'


# Drain


@dataclass(frozen=True)
class Drained:
    """The result of `drain`: each message is counted once, by its outcome."""

    batches: int
    written: int
    refused: int
    released: int = 0


def drain(
    spark: SparkSession,
    topic: str,
    target: str,
    *,
    dsn: str | None = None,
    filter: Filter = None,
    transform: Callable[[DataFrame], DataFrame] | None = None,
    write: Write | None = None,
    n: int = N,
    name: str | None = None,
    dropped: Literal["refuse", "release"] = "refuse",
    partitions: int = 0,
    say: Say = _quiet,
) -> Drained:
    """Move a queue's messages to Parquet, or to any table that Spark can write, until it is empty.

    Messages are claimed in numbered batches. The rows of a batch that `transform` returns are
    written to the directory of the batch, and the messages that are found there are acknowledged.
    Messages whose column ``error`` is not null are refused (nack) with that error. After a crash,
    the next run repeats the unfinished batch.

    The directory is ``run=.../batch=...``. The run identifies this stream of this queue, so that a
    queue that was dropped and created again overwrites nothing.

    :param topic: the name of the queue.
    :param target: a directory, such as ``file:///orders`` or ``s3a://bucket/o``.
    :param dsn: the database of the queues; None for that of `register`, or ``PGQ_DSN``.
    :param filter: the messages to claim; None for all.
    :param transform: a function of the messages that keeps ``id`` and may add ``error``.
    :param write: called as ``write(rows, run, batch)`` instead of writing Parquet. A batch that is
        repeated has the same messages, run and number, so that the pair of run and number makes a
        write happen once (``txnAppId`` and ``txnVersion`` of Delta). The function may return a
        DataFrame with the ``id`` of each written message; otherwise all rows count as written.
    :param n: the maximum number of messages of a batch.
    :param name: the name of the stream; None to derive it from topic and target.
    :param dropped: what happens to messages that `transform` returns no row for: ``refuse`` them
        (nack), or ``release`` them without counting the attempt, due in a minute.
    :param say: a function that is called with each line of progress.

    >>> pgq.spark.drain(spark, "orders", "s3a://bucket/orders", say=print)
    """
    if dropped not in ("refuse", "release"):
        raise ValueError(f"dropped is 'refuse' or 'release', not {dropped!r}")
    dsn = dsn_for(spark, dsn)
    consumer = name or f"drain {hashlib.sha256(f'{topic} {target}'.encode()).hexdigest()[:12]}"
    wanted = document(filter)
    shape = None if wanted is None else json.dumps(wanted)
    done = Drained(0, 0, 0)
    queue = Name(dsn, topic, consumer, timedelta(seconds=30), None)
    batch = queue.begin()
    try:
        run = f"{target.rstrip('/')}/run={queue.bind(None, batch).identity[:8]}"
        given_back: set[int] = set()
        while True:
            batch += 1
            claimed = queue.claim(batch, shape, n)
            if claimed is None:
                return done
            lease, size = claimed
            try:
                options = {"dsn": dsn, "mode": "claim", "leaseId": lease, "n": size}
                df = as_frame(spark, options | {"numPartitions": partitions})
                good, bad = _transformed(df, transform)
                errors = _errors(bad)
                if write is None:
                    _write_batch(good, run, batch)
                    missing = [] if transform is None else _missing(df, run, batch)
                else:
                    missing = _written_by(write, df, good, run, batch)
                missing = sorted({*missing}.difference(*errors.values()))
                if missing and dropped == "refuse":
                    errors["the transformation returned no row for it"] = missing
                    missing = []
                now = _settle(queue, batch, lease, errors, missing)
            except Exception:
                say(
                    f"batch {batch} has failed, and its messages stay leased: the next run repeats"
                    f" it, or select pgq.release({lease}) gives them back"
                )
                raise
            done = Drained(*map(sum, zip(astuple(done), astuple(now), strict=True)))
            given = now.refused + now.released
            say(f"batch {batch}: {now.written} messages written, {given} given back")
            if missing and not now.written and given_back.issuperset(missing):
                return done  # only released messages were delivered again
            given_back.update(missing)
    finally:
        queue.end()


# The given messages that a lease still holds.
LEFT: Final = "array(select id from pgq.leased_message where lease_id = %s and id = any (%s))"


def _settle(
    queue: Name, batch: int, lease: int, refused: dict[str, list[int]], released: list[int]
) -> Drained:
    """Finish a batch in one transaction: acknowledge, refuse and release; return the counts.

    Written messages are acknowledged first: refusing a message also releases the messages behind
    it in its ordering group.
    """
    others = sorted({*released}.union(*refused.values()))

    def work(conn: psycopg.Connection[Any]) -> Drained:
        done = failed = later = 0
        with conn.transaction():
            if others:
                ((done,),) = ask(
                    conn,
                    "select pgq.ack(%s, array(select id from pgq.leased_message"
                    " where lease_id = %s and id <> all (%s::bigint[])))",
                    lease,
                    lease,
                    others,
                )
            for error, ids in refused.items():
                nack = f"select pgq.nack(%s, {LEFT}, error => %s)"
                failed += ask(conn, nack, lease, lease, ids, error)[0][0]
            if released:
                # With a delay, so that other messages come first.
                release = f"select pgq.release(%s, {LEFT}, '1 min')"
                later = ask(conn, release, lease, lease, released)[0][0]
            ((rest,),) = ask(
                conn,
                "select pgq.stream_finish(%s, %s, %s, %s)",
                queue.topic,
                queue.consumer,
                queue.owner,
                batch,
            )
        return Drained(1, done + rest, failed, later)

    return queue.run(work)


def _write_batch(rows: DataFrame, run: str, batch: int) -> None:
    """Write a batch to its directory; complete new files replace those that are there."""
    out = rows.withColumn("batch", F.lit(batch)).write.partitionBy("batch").mode("overwrite")
    out.option("partitionOverwriteMode", "dynamic").parquet(run)


def _written_by(write: Write, rows: DataFrame, good: DataFrame, run: str, batch: int) -> list[int]:
    """Call the user's function to write a batch; return the ids of messages not written."""
    good = good.persist()  # so that the same rows are written and counted
    try:
        there = write(good, run, batch)
        return ids_of(rows.select("id").join(good if there is None else there, "id", "left_anti"))
    finally:
        good.unpersist()


def _missing(rows: DataFrame, run: str, batch: int) -> list[int]:
    """Return the ids of the messages that are still leased and not in the files of the batch."""
    try:
        path = f"{run}/batch={batch}"
        there = rows.sparkSession.read.schema("id long").parquet(path)
        return ids_of(rows.select("id").join(there, "id", "left_anti"))
    except AnalysisException as error:  # no row of the batch was written
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return ids_of(rows)


def _transformed(
    rows: DataFrame, transform: Callable[[DataFrame], DataFrame] | None
) -> tuple[DataFrame, DataFrame | None]:
    out = rows if transform is None else transform(rows)
    if "id" not in out.columns:
        raise ValueError("the transformation has to keep the column 'id'")
    for name in ("run", "batch"):
        if name in out.columns:
            raise ValueError(f"the column {name!r} is that of the directory: rename it")
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
    """Return rows as a text table, for the summary of a job."""
    lines = [titles, *(tuple(str(value) for value in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    return "\n".join(
        "  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
