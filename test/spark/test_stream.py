"""Streams out of a queue and into one."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from harness.spark import Fill, stats
from pgq import embedded

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
    """Run a stream to files until everything that is there now is done."""
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


def test_a_stream_writes_every_message_once_and_goes_on_where_it_was(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill()
    query = to_files(source(spark, maxMessagesPerTrigger=400), tmp_path)
    sizes = [progress["numInputRows"] for progress in query.recentProgress]
    assert [size for size in sizes if size] == [400, 400, 200]
    (described,) = query.recentProgress[0]["sources"]
    assert json.loads(described["latestOffset"]) == {"ready": 600}
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
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
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
    first = sink.option("checkpointLocation", str(tmp_path / "1")).start()
    try:
        deadline = time.monotonic() + SECONDS
        while stats(db)[0] and time.monotonic() < deadline:
            time.sleep(0.2)
        second = sink.option("checkpointLocation", str(tmp_path / "2")).start()
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

    def slow(rows: DataFrame, batch: int) -> None:
        rows.count()
        for _ in range(4):
            time.sleep(1)
            found = db.execute("select count(*) from pgq.claim('work', n => 10)").fetchone()
            taken.extend(found or ())

    query = source(spark, lease="2 s").writeStream.foreachBatch(slow)
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    finished(query.start())
    assert taken == [0, 0, 0, 0]
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


BAD = [
    ({"consumer": ""}, "needs the option 'consumer'"),
    ({"topic": ""}, "needs the option 'topic'"),
    ({"startingOffsets": "latest"}, "is earliest"),
    ({"maxMessagesPerTrigger": "-1"}, "from 1 to 1000000"),
    ({"offsets": "1"}, "knows no option 'offsets'"),
    ({"filter": '{"a": {"$what": 1}}'}, r"\$what"),
    ({"timeout": "0 s"}, "a time such as"),
]


def test_bad_input_ends_a_stream_before_any_claim(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=10)
    for number, (options, message) in enumerate(BAD):
        sink = source(spark, **options).writeStream.format("noop")
        sink = sink.option("checkpointLocation", str(tmp_path / str(number)))
        with pytest.raises(Exception, match=message):
            finished(sink.trigger(availableNow=True).start())
    assert stats(db) == (10, 0, 0)
    rows = source(spark).select("value").writeStream.format("pgq").option("topic", "work")
    with pytest.raises(Exception, match="needs the option 'writer'"):
        finished(rows.option("checkpointLocation", str(tmp_path / "w")).start())
    # A sink is asked when there is a batch for it; that is kept for a better one.
    assert stats(db) == (0, 10, 0)
