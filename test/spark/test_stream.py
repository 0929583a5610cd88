"""Streams from a queue and into a queue."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery

from harness.spark import Fill, stats
from pgq import embedded
from pgq.spark._rows import column_names, schema_of
from pgq.spark.options import STREAM_READ, OptionError, Options
from pgq.spark.source import PgqStreamReader

SECONDS = 120


def numbers(df: DataFrame) -> list[int]:
    return sorted(json.loads(row["value"])["n"] for row in df.select("value").collect())


def source(spark: SparkSession, **options: Any) -> DataFrame:
    defaults: dict[str, Any] = {
        "topic": "work",
        "consumer": "etl",
        "timeout": "3 s",
        "numPartitions": 2,
    }
    return spark.readStream.format("pgq").options(**defaults | options).load()


def to_files(df: DataFrame, place: Path) -> StreamingQuery:
    """Run a stream to files until all current messages are done."""
    writer = df.writeStream.format("parquet").option("path", str(place / "out"))
    query = writer.option("checkpointLocation", str(place / "checkpoint"))
    return finished(query.trigger(availableNow=True).start())


def finished(query: StreamingQuery) -> StreamingQuery:
    if not query.awaitTermination(SECONDS):
        query.stop()
        pytest.fail("the stream does not end")
    return query


def out(spark: SparkSession, place: Path) -> list[int]:
    return numbers(spark.read.parquet(str(place / "out")))


def test_a_stream_writes_every_message_once_and_continues(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill()
    query = to_files(source(spark, maxMessagesPerTrigger=400), tmp_path)
    sizes = [progress["numInputRows"] for progress in query.recentProgress]
    assert [size for size in sizes if size] == [400, 400, 200]
    (described,) = query.recentProgress[0]["sources"]
    assert json.loads(described["latestOffset"]) == {"ready": 600, "waiting": 0}
    assert out(spark, tmp_path) == list(range(1, 1001))
    assert stats(db) == (0, 0, 0)

    fill(n=500, first=1001)
    to_files(source(spark, filter='{"type": "a"}'), tmp_path)
    assert out(spark, tmp_path) == [*range(1, 1001), *range(1002, 1501, 3)]
    assert stats(db) == (333, 0, 0)
    assert db.execute("select batch from pgq.stream").fetchone() == (4,)


def test_available_now_ends_whatever_is_published_meanwhile(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=100)

    def publish_more(rows: DataFrame, batch: int) -> None:
        rows.count()
        fill(n=100, first=1000 * (batch + 1))

    query = source(spark, maxOffsetsPerTrigger=50).writeStream.foreachBatch(publish_more)
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    finished(query.start())
    assert stats(db) == (200, 0, 0)


def test_from_queue_to_queue_every_message_arrives_once(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=600)
    fill("next", 0)

    def run(writer: str = "copy") -> None:
        df = source(spark, maxMessagesPerTrigger=300).select("value", "headers", "priority")
        query = df.writeStream.format("pgq").options(topic="next", writer=writer)
        query = query.queryName("copy of work").option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        finished(query.trigger(availableNow=True).start())

    run()
    assert stats(db, "next") == (600, 0, 0)
    # The last batch is not known to be done: it is done again, and published no second time.
    forget_last_commit(tmp_path / "checkpoint")
    db.execute("update pgq.stream set batch = batch - 1")
    fill(n=30, first=601)
    with pytest.raises(Exception, match="batch 2 of consumer 'etl' is lost"):
        run()
    df = spark.read.format("pgq").option("topic", "next").load()
    assert numbers(df) == list(range(1, 601))


def forget_last_commit(checkpoint: Path) -> None:
    commits = [file for file in (checkpoint / "commits").iterdir() if file.name.isdigit()]
    last = max(commits, key=lambda file: int(file.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_a_batch_that_is_done_again_has_the_same_rows(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    """A foreachBatch sink fails after its work: files would hide a batch of other rows."""
    fill(n=300)
    fill("next", 0)
    seen: list[tuple[int, list[int]]] = []

    def note(rows: DataFrame, batch: int) -> None:
        seen.append((batch, numbers(rows)))
        rows.select("value").write.format("pgq").mode("append").options(
            topic="next", writer="foreach", epoch=batch
        ).save()
        if len(seen) == 2:
            raise ValueError("injected")

    for attempt in range(2):
        query = source(spark, maxMessagesPerTrigger=100).writeStream.foreachBatch(note)
        query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        if attempt == 0:
            with pytest.raises(Exception, match="injected"):
                finished(query.start())
            assert stats(db) == (100, 100, 0)
        else:
            finished(query.start())
    assert [batch for batch, _ in seen] == [0, 1, 1, 2]
    assert seen[1] == seen[2]
    assert stats(db, "next") == (300, 0, 0)
    assert stats(db) == (0, 0, 0)


def test_a_name_is_for_one_stream_at_a_time(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=10)
    sink = source(spark).writeStream.format("noop")
    # The one that is refused waits for half as long again as its timeout.
    other = source(spark, timeout="1 s").writeStream.format("noop")
    first = sink.option("checkpointLocation", str(tmp_path / "1")).start()
    try:
        deadline = time.monotonic() + SECONDS
        while stats(db)[0] and time.monotonic() < deadline:
            time.sleep(0.2)
        second = other.option("checkpointLocation", str(tmp_path / "2")).start()
        with pytest.raises(Exception, match='consumer "etl" of queue "work" is in use'):
            finished(second)
        assert first.isActive
    finally:
        first.stop()


def test_a_lease_is_renewed_while_a_long_batch_runs(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=10)
    taken: list[int] = []
    over: list[bool] = []

    def slow(rows: DataFrame, batch: int) -> None:
        rows.count()
        ends = db.execute("select until from pgq.leases").fetchone()
        assert ends is not None
        while not over or not over[-1]:  # until it would have ended, if nobody had renewed it
            time.sleep(0.1)
            found = db.execute("select count(*) from pgq.claim('work', n => 10)").fetchone()
            taken.extend(found or ())
            over.extend(db.execute("select clock_timestamp() > %s", ends).fetchone() or ())

    query = source(spark, lease="2 s").writeStream.foreachBatch(slow)
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    finished(query.start())
    assert taken
    assert not any(taken)
    assert stats(db) == (0, 0, 0)


@pytest.mark.parametrize("strict", [True, False])
def test_a_broken_lease_is_a_clear_error_or_data_that_may_be_lost(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path, strict: bool
) -> None:
    fill(n=200)
    rows = source(spark, maxMessagesPerTrigger=100, failOnDataLoss=str(strict).lower())
    counts: list[int] = []

    def broken(rows: DataFrame, batch: int) -> None:
        counts.append(rows.count())
        if batch == 1:
            db.execute("select pgq.release(lease_id) from pgq.leases where key = 'stream etl 2'")
            counts.append(rows.count())

    query = rows.writeStream.foreachBatch(broken)
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    if strict:
        with pytest.raises(Exception, match="failOnDataLoss=false"):
            finished(query.start())
    else:
        finished(query.start())
        assert counts == [100, 100, 0]
    assert stats(db) == (100, 0, 0)


def test_a_stream_survives_a_restart_of_the_server(
    spark: SparkSession,
    server: embedded.Server,
    connect: Any,
    fill: Fill,
    tmp_path: Path,
) -> None:
    fill()
    restarted = threading.Event()

    def restart(rows: DataFrame, batch: int) -> None:
        if batch == 1 and not restarted.is_set():
            restarted.set()
            server.restart()
        rows.write.mode("overwrite").parquet(str(tmp_path / "out" / f"batch={batch}"))

    query = source(spark, maxMessagesPerTrigger=400).writeStream.foreachBatch(restart)
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finished(query.trigger(availableNow=True).start())
    assert restarted.is_set()
    assert out(spark, tmp_path) == list(range(1, 1001))
    assert stats(connect()) == (0, 0, 0)


def reader(dsn: str, **options: str) -> PgqStreamReader:
    """Return the reader that Spark makes of a stream's options, in this process."""
    given = {"dsn": dsn, "topic": "work", "consumer": "etl"} | options
    ours = schema_of(column_names())
    return PgqStreamReader(Options(given, STREAM_READ, "a stream"), ours)


def test_progress_shows_messages_waiting_in_ordering_groups(
    db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill(n=2)
    db.execute("select pgq.publish('work', '1', group_key => 'g') from generate_series(1, 9)")
    stream = reader(dsn)
    try:
        start = stream.initialOffset()
        assert stream.reportLatestOffset() == {"ready": 3, "waiting": 8}
        assert stream.latestOffset(start, ReadMaxRows(10))["batch"] == 1
        assert stream.reportLatestOffset() == {"ready": 0, "waiting": 1}
    finally:
        stream.stop()


def test_a_batch_has_runs_of_ordering_groups_in_order(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=0)
    # Five keys in turn: of each group 400, and the stream takes all of it in one batch.
    db.execute(
        "insert into pgq.message (topic, payload, group_key)"
        " select 'work', jsonb_build_object('n', i), 'g' || i % 5 from generate_series(1, 2000) i"
        " order by i"
    )
    seen: dict[str, list[int]] = {}

    def work(rows: DataFrame, batch: int) -> None:
        for row in rows.coalesce(1).sortWithinPartitions("id").collect():
            seen.setdefault(row["key"], []).append(json.loads(row["value"])["n"])

    query = source(spark).writeStream.foreachBatch(work)
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    progress = finished(query.trigger(availableNow=True).start()).recentProgress
    sizes = [each["numInputRows"] for each in progress]
    assert [size for size in sizes if size] == [2000]
    assert seen == {f"g{key}": list(range(key or 5, 2001, 5)) for key in range(5)}
    assert stats(db) == (0, 0, 0)
    assert not db.execute("select message_id from pgq.group_line").fetchall()


def batches(stream: PgqStreamReader, most: int) -> int:
    """Continue as availableNow does, until there is no new batch; return how many there were."""
    stream.prepareForTriggerAvailableNow()
    offset, count = stream.initialOffset(), 0
    while (following := stream.latestOffset(offset, ReadMaxRows(most))) != offset:
        offset, count = following, count + 1
        stream.commit(offset)
    return count


@pytest.mark.parametrize(("runs", "count"), [("true", 2), ("false", 4)])
def test_available_now_reads_messages_waiting_in_ordering_groups(
    db: psycopg.Connection, dsn: str, fill: Fill, runs: str, count: int
) -> None:
    fill(n=0)
    for number in range(12):
        db.execute(
            "select pgq.publish('work', to_jsonb(%s::int), group_key => %s)",
            [number, f"g{number % 3}"],
        )
    stream = reader(dsn, groupruns=runs)
    try:
        assert batches(stream, 10) == count
        assert stats(db) == (0, 0, 0)
    finally:
        stream.stop()


def test_available_now_counts_a_batch_that_was_claimed_before_once(
    db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill(n=30)
    first = reader(dsn)
    assert first.latestOffset(first.initialOffset(), ReadMaxRows(10))["batch"] == 1
    first.stop()
    assert stats(db) == (20, 10, 0)
    second = reader(dsn)
    try:
        assert batches(second, 10) == 3
        assert stats(db) == (0, 0, 0)
    finally:
        second.stop()


def test_an_idle_stream_asks_once_a_second(
    dsn: str, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(n=0)
    now = 1000.0
    monkeypatch.setattr("pgq.spark.source.time.monotonic", lambda: now)
    stream = reader(dsn)
    try:
        start = stream.initialOffset()
        asked: list[Any] = []
        monkeypatch.setattr(stream.name(), "claim", lambda *given: asked.append(given))
        for _ in range(30):
            for _ in range(100):
                assert stream.latestOffset(start, ReadMaxRows(10)) == start
            now += 0.1
        assert len(asked) == 3
    finally:
        stream.stop()


def test_two_subscriptions_see_every_message_each(
    db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill(n=5)
    found: dict[str, int] = {}
    for name in ("billing", "search", "billing"):
        stream = reader(dsn, consumer="", subscription=name)
        try:
            start = stream.initialOffset()
            (part,) = stream.partitions(start, stream.latestOffset(start, ReadMaxRows(10)))
            found[name] = part.value[4]
        finally:
            stream.stop()
    assert found == {"billing": 5, "search": 5}
    assert stats(db) == (5, 0, 0)
    fill(n=1)
    assert (stats(db, "billing")[0], stats(db, "search")[0]) == (1, 1)
    late = reader(dsn, consumer="", subscription="late", startingOffsets="latest")
    try:
        start = late.initialOffset()
        assert late.latestOffset(start, ReadMaxRows(10)) == start
    finally:
        late.stop()


BAD = [
    ({"consumer": ""}, "needs the option 'consumer'"),
    ({"topic": ""}, "needs the option 'topic'"),
    ({"startingOffsets": "latest"}, "is earliest"),
    ({"maxMessagesPerTrigger": "-1"}, "from 1 to 1000000"),
    ({"offsets": "1"}, "knows no option 'offsets'"),
    ({"timeout": "0 s"}, "a time such as"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_options_of_a_stream_are_checked(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        reader("", **options)


def test_bad_input_ends_a_stream_before_any_claim(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=10)
    with pytest.raises(Exception, match="knows no option 'offsets'"):
        source(spark, offsets=1)
    sink = source(spark, filter='{"a": {"$what": 1}}').writeStream.format("noop")
    with pytest.raises(Exception, match=r"\$what"):
        finished(sink.option("checkpointLocation", str(tmp_path / "1")).start())
    assert stats(db) == (10, 0, 0)
    rows = source(spark).select("value").writeStream.format("pgq").option("topic", "work")
    with pytest.raises(Exception, match="needs the option 'writer'"):
        finished(rows.option("checkpointLocation", str(tmp_path / "w")).start())
    # A sink is asked when there is a batch for it; that is kept for a better one.
    assert stats(db) == (0, 10, 0)


def test_watermarks_follow_the_time_of_a_message(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=10)
    row = db.execute("select max(published_at) at time zone 'UTC' from pgq.message").fetchone()
    assert row is not None
    late = source(spark).withWatermark("timestamp", "1 minute")
    hours = late.groupBy(F.window("timestamp", "1 hour")).count().writeStream.format("noop")
    hours = hours.outputMode("update").option("checkpointLocation", str(tmp_path / "hours"))
    query = finished(hours.trigger(availableNow=True).start())
    seen = [batch["eventTime"] for batch in query.recentProgress if batch["numInputRows"]]
    assert [time["max"] for time in seen] == [f"{row[0].isoformat()[:-3]}Z"]
