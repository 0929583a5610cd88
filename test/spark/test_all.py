"""mode=all: every message ever published, once, from the archive and the live log."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

import pgq.spark
from harness.spark import Fill, close_era, maintain_until
from pgq.spark._log import Files, Live
from pgq.spark._rows import ServerError, column_names, schema_of
from pgq.spark.options import BATCH_READ, Options
from pgq.spark.source import PgqReader

SECONDS = 120


def numbers(df: DataFrame) -> list[int]:
    return sorted(json.loads(row["value"])["n"] for row in df.select("value").collect())


def everything(spark: SparkSession, **options: Any) -> DataFrame:
    return spark.read.format("pgq").options(**{"mode": "all", "topic": "work"} | options).load()


def reader(dsn: str, **options: Any) -> PgqReader:
    given = {"dsn": dsn, "mode": "all", "topic": "work"} | options
    schema = schema_of(column_names())
    return PgqReader(Options(given, BATCH_READ, "reading"), schema)


def read(reader: PgqReader, parts: Any) -> list[int]:
    """Read the parts of a plan without Spark."""
    found: list[int] = []
    for part in parts:
        for batch in reader.read(part):
            found += [json.loads(value)["n"] for value in batch.column("value").to_pylist()]
    return sorted(found)


def finish(db: psycopg.Connection, n: int) -> None:
    db.execute("select pgq.ack(lease_id) from pgq.claim('work', n => %s) limit 1", [n])


def test_every_message_is_read_once_while_eras_rotate(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=90)
    fill("other", 10)
    target = str(tmp_path / "archive")
    pgq.spark.archive(spark, target, dsn=dsn)
    whole = reader(dsn, numPartitions="3")
    truth = list(range(1, 91))
    assert read(whole, whole.partitions()) == truth
    # Ten messages die, ten are not finished: those go on to the next era.
    db.execute("select pgq.bury(lease_id) from pgq.claim('work', n => 10) limit 1")
    finish(db, 70)
    close_era(db)
    before = whole.partitions()
    (done,) = pgq.spark.archive(spark, target, dsn=dsn, partitions=2)
    assert done.messages == 80
    archived = whole.partitions()
    assert {type(part.value) for part in archived} == {Files, Live}
    fill(n=10, first=91)
    truth = list(range(1, 101))
    both = whole.partitions()
    close_era(db)
    maintain_until(db, 30)
    # A plan from before finds in the copy what is not in the log any more.
    assert read(whole, before) == read(whole, archived) == truth[:90]
    assert read(whole, both) == truth
    # Dead letters are replayed, and are in two eras then.
    db.execute("select pgq.replay('work')")
    again = whole.partitions()
    finish(db, 100)
    close_era(db)
    assert read(whole, again) == truth
    done_again = pgq.spark.archive(spark, target, dsn=dsn)
    assert sum(era.messages for era in done_again) == 30
    assert read(whole, both) == read(whole, again) == read(whole, whole.partitions()) == truth

    # By Spark, with all of its options.
    assert numbers(everything(spark)) == truth
    assert everything(spark, topic="other").count() == 10
    chosen = everything(spark, filter='{"type": "a", "payload.n": {"$lt": 50}}')
    assert numbers(chosen) == list(range(3, 50, 3))
    first = db.execute("select min(low) from pgq.archive_era").fetchone()
    assert first is not None
    span = {"startingOffsets": first[0] + 20, "endingOffsets": first[0] + 30}
    assert numbers(everything(spark, **span)) == list(range(21, 31))
    later = {"startingTimestamp": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    assert everything(spark, **later).count() == 0
    now = {"startingTimestamp": "2020-01-01", "endingTimestamp": later["startingTimestamp"]}
    assert numbers(everything(spark, **now).select("value")) == truth
    (tmp_path / "archive").rename(tmp_path / "moved")
    with pytest.raises(ServerError, match="is not there"):
        whole.partitions()
    moved = reader(dsn, archive=str(tmp_path / "moved"))
    assert read(moved, moved.partitions()) == truth

    # An era that was emptied without a copy is an error, or left out.
    db.execute("delete from pgq.archive_era where era = 1")
    with pytest.raises(ServerError, match="era 1 was emptied before it was archived"):
        moved.partitions()
    rest = reader(dsn, failOnDataLoss="false", archive=str(tmp_path / "moved"))
    assert read(rest, rest.partitions())


def test_the_archive_has_every_column_and_checks_it(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=0)
    db.execute(
        "insert into pgq.message (topic, payload, sender, recipient, reply_to, correlation_id,"
        " group_key, dedup_key, deliver_at, expires_at) values"
        " ('work', '1', 's', 'r', 'work', 'c', 'g', 'd', now() - interval '1 s',"
        " '3000-01-02 03:04:05.678901Z'),"
        " ('work', '2', '', null, null, null, null, null, 'infinity', 'infinity')"
    )
    finish(db, 10)
    close_era(db)
    (done,) = pgq.spark.archive(spark, str(tmp_path), dsn=dsn)
    assert done.messages == 2
    rows = pgq.spark.pipelines.read_archive(spark, str(tmp_path))
    given, empty = rows.orderBy("value").collect()
    assert (given["sender"], given["dedup_key"], given["publisher"]) == ("s", "d", "postgres")
    assert given["expires_at"].year == 3000
    assert (empty["sender"], empty["recipient"], empty["deliver_at"]) == ("", None, "infinity")
    found = everything(spark, includeAll="true").orderBy("value").collect()
    assert [tuple(row) for row in found] == [
        tuple(row[name] if name != "attempt" else 0 for name in found[0].asDict())
        for row in (given, empty)
    ]


def test_a_stream_begins_in_the_archive_and_ends_in_the_live_queue(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=100)
    finish(db, 80)
    close_era(db)
    pgq.spark.archive(spark, str(tmp_path / "archive"), dsn=dsn)
    fill(n=50, first=101)

    def run(place: str, **options: Any) -> list[int]:
        given: dict[str, Any] = {"mode": "all", "topic": "work", "maxOffsetsPerTrigger": 60}
        given |= options
        df = spark.readStream.format("pgq").options(**given).load()
        out = df.writeStream.format("parquet").option("path", str(tmp_path / place))
        out = out.option("checkpointLocation", str(tmp_path / f"{place}-checkpoint"))
        assert out.trigger(availableNow=True).start().awaitTermination(SECONDS)
        return numbers(spark.read.parquet(str(tmp_path / place)))

    assert run("all") == list(range(1, 151))
    close_era(db)
    maintain_until(db, 70)
    fill(n=10, first=151)
    # The stream continues, and consumes nothing.
    assert run("all") == list(range(1, 161))
    assert db.execute("select count(*) from pgq.stream").fetchone() == (0,)
    low = db.execute("select low from pgq.archive_era").fetchone()
    assert low is not None
    assert run("some", startingOffsets=low[0] + 49) == list(range(50, 161))
