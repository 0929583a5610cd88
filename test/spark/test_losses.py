"""Common operations lose no message: overlapping runs, new checkpoints, recreated queues."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pgq.spark
from harness.damage import damage
from harness.spark import Fill, close_era, maintain_until, stats
from pgq.spark.pipelines import read_archive

SECONDS = 120


def numbers(df: DataFrame) -> list[int]:
    return sorted(json.loads(row["value"])["n"] for row in df.select("value").collect())


def done_era(db: psycopg.Connection, fill: Fill, n: int) -> None:
    fill(n=n)
    db.execute("select pgq.ack(lease_id) from pgq.claim('work', n => %s) limit 1", [n])
    close_era(db)


# Archive


def test_of_two_archive_runs_that_overlap_one_is_refused(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    done_era(db, fill, 30)
    target = str(tmp_path / "archive")
    refused: list[str] = []

    def second(line: str) -> None:
        if line.endswith("confirmed") or refused:
            return
        with pytest.raises(psycopg.errors.ObjectInUse, match="another process archives") as error:
            pgq.spark.archive(spark, target, dsn=dsn, timeout=timedelta(seconds=0.1))
        refused.append(str(error.value))

    (done,) = pgq.spark.archive(spark, target, dsn=dsn, say=second)
    assert (len(refused), done.messages) == (1, 30)
    assert numbers(read_archive(spark, target)) == list(range(1, 31))
    assert db.execute("select owner from pgq.archive").fetchone() == (None,)


def test_a_run_that_has_lost_its_place_overwrites_nothing(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    """The first run is silent for too long before it writes; the second does all of it."""
    done_era(db, fill, 30)
    target = str(tmp_path / "archive")
    others: list[Any] = []

    def asleep(line: str) -> None:
        if not others:
            db.execute("update pgq.archive set owner = 'gone', until = now()")
            others.extend(pgq.spark.archive(spark, target, dsn=dsn))
            close_era(db)
            maintain_until(db, 0)

    with pytest.raises(psycopg.Error, match=r"not there to be archived|not the last one"):
        pgq.spark.archive(spark, target, dsn=dsn, say=asleep)
    assert [era.messages for era in others] == [30]
    assert numbers(read_archive(spark, target)) == list(range(1, 31))


def test_an_attempt_that_failed_half_way_is_not_read(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    done_era(db, fill, 30)
    target = str(tmp_path / "archive")
    damage(db, "update pgq.message_0 set headers = headers where id = 1")
    db.execute("alter function pgq.archived rename to not_now")
    with pytest.raises(Exception, match="archived"):
        pgq.spark.archive(spark, target, dsn=dsn)
    assert len(list(Path(target).glob("era=*"))) == 1
    db.execute("alter function pgq.not_now rename to archived")
    (done,) = pgq.spark.archive(spark, target, dsn=dsn)
    assert done.path.endswith("-2")
    assert len(list(Path(target).glob("era=*"))) == 2
    assert numbers(read_archive(spark, target)) == list(range(1, 31))


def test_another_database_archives_into_the_same_directory(
    spark: SparkSession,
    db: psycopg.Connection,
    dsn: str,
    fill: Fill,
    tmp_path: Path,
) -> None:
    target = str(tmp_path / "archive")
    done_era(db, fill, 3)
    db.execute("update pgq.era set started_at = '2030-01-01' where number = 0")
    pgq.spark.archive(spark, target, dsn=dsn)
    # As another database has it: the same number and moment, other messages.
    db.execute("delete from pgq.archive_copy")
    db.execute("update pgq.era set archived_at = null where number = 0")
    damage(db, "update pgq.message_0 set payload = '{\"n\": 7}'")
    pgq.spark.archive(spark, target, dsn=dsn)
    assert numbers(read_archive(spark, target)) == [1, 2, 3, 7, 7, 7]


# Drain


def few(rows: DataFrame) -> DataFrame:
    return rows.where(F.get_json_object("value", "$.n").cast("int") <= 10)


def test_messages_that_a_transformation_drops_are_refused(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=30, max_attempts="1")
    done = pgq.spark.drain(spark, "work", str(tmp_path), dsn=dsn, transform=few, n=15)
    assert (done.batches, done.written, done.refused, done.released) == (2, 10, 20, 0)
    assert numbers(spark.read.parquet(str(tmp_path))) == list(range(1, 11))
    dead = db.execute("select distinct error, count(*) from pgq.dead_letter group by 1").fetchall()
    assert dead == [("the transformation returned no row for it", 20)]
    assert stats(db) == (0, 0, 0)


def test_messages_that_a_transformation_drops_are_released(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=30)
    done = pgq.spark.drain(
        spark, "work", str(tmp_path), dsn=dsn, transform=few, n=15, dropped="release"
    )
    assert (done.written, done.refused, done.released) == (10, 0, 20)
    assert stats(db) == (0, 0, 20)
    assert db.execute("select max(attempt) from pgq.scheduled").fetchone() == (0,)
    assert numbers(spark.read.parquet(str(tmp_path))) == list(range(1, 11))


def test_a_queue_that_is_made_anew_is_drained_beside_the_old_one(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=10)
    pgq.spark.drain(spark, "work", str(tmp_path), dsn=dsn)
    db.execute("select pgq.drop_queue('work', force => true)")
    fill(n=3, first=11)
    pgq.spark.drain(spark, "work", str(tmp_path), dsn=dsn)
    assert numbers(spark.read.parquet(str(tmp_path))) == list(range(1, 14))


def test_any_table_is_a_target_that_is_written_once(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    """A table format with transactions, as Delta has them: an application, and a version of it."""
    fill(n=30, max_attempts="1")
    last: dict[str, int] = {}
    fails = [2]

    def write(rows: DataFrame, run: str, batch: int) -> DataFrame:
        if batch > last.get(run, 0):
            rows.select("id", "value").write.mode("append").parquet(str(tmp_path / "table"))
            last[run] = batch
        if batch in fails:
            fails.remove(batch)
            raise ValueError("injected")  # committed, and nobody was told
        return spark.read.parquet(str(tmp_path / "table"))

    def drain(**more: Any) -> pgq.spark.Drained:
        return pgq.spark.drain(spark, "work", "table", dsn=dsn, write=write, n=10, **more)

    with pytest.raises(ValueError, match="injected"):
        drain()
    assert stats(db) == (10, 10, 0)
    done = drain()
    assert (done.batches, done.written, done.refused) == (2, 20, 0)
    assert numbers(spark.read.parquet(str(tmp_path / "table"))) == list(range(1, 31))
    fill(n=20, first=1, max_attempts="1")
    done = drain(transform=few)
    assert (done.written, done.refused) == (10, 10)
    # Another queue of that name is another run.
    db.execute("select pgq.drop_queue('work', force => true)")
    fill(n=3, first=31)
    drain()
    assert len(last) == 2
    assert numbers(spark.read.parquet(str(tmp_path / "table")))[-3:] == [31, 32, 33]


# Checkpoints


def source(spark: SparkSession, **options: Any) -> DataFrame:
    defaults: dict[str, Any] = {
        "topic": "work",
        "consumer": "etl",
        "timeout": "3 s",
        "numPartitions": 1,
    }
    return spark.readStream.format("pgq").options(**defaults | options).load()


def run(df: DataFrame, sink: str, place: Path, **options: Any) -> list[dict[str, Any]]:
    """Run a stream until all current messages are done; return its progress."""
    writer = df.writeStream.format(sink).options(**options)
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    if not query.awaitTermination(SECONDS):
        query.stop()
        pytest.fail("the stream does not end")
    return [dict(json.loads(progress.json)) for progress in query.recentProgress]


def test_a_new_checkpoint_with_an_old_consumer_is_refused_and_loses_nothing(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=50)
    out = str(tmp_path / "out")
    run(source(spark), "parquet", tmp_path, path=out)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "backup")
    fill(n=50, first=51)
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(Exception, match="belongs to the checkpoint of another query"):
        run(source(spark), "parquet", tmp_path, path=out)
    assert stats(db)[0] == 50
    # With the old checkpoint the stream continues.
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "backup", tmp_path / "checkpoint")
    run(source(spark), "parquet", tmp_path, path=out)
    assert numbers(spark.read.parquet(out)) == list(range(1, 101))
    # Or with a new one, if that is meant, into a new directory.
    fill(n=50, first=101)
    shutil.rmtree(tmp_path / "checkpoint")
    run(source(spark, newCheckpoint="true"), "parquet", tmp_path, path=f"{out}2")
    assert numbers(spark.read.parquet(f"{out}2")) == list(range(101, 151))


def test_a_checkpoint_from_a_backup_is_refused_or_reports_skipped_batches(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=20)
    run(source(spark), "noop", tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "backup")
    for first in (21, 41):
        fill(n=20, first=first)
        run(source(spark), "noop", tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "backup", tmp_path / "checkpoint")
    fill(n=20, first=61)
    with pytest.raises(Exception, match="failOnDataLoss=false"):
        run(source(spark), "noop", tmp_path)
    assert stats(db) == (20, 0, 0)
    progress = run(source(spark, failOnDataLoss="false"), "noop", tmp_path)
    assert sum(one["numInputRows"] for one in progress) == 20
    (described,) = progress[0]["sources"]
    assert described["latestOffset"]["skippedBatches"] == 2
    assert stats(db) == (0, 0, 0)


def test_a_new_checkpoint_with_an_old_writer_is_refused_even_after_one_epoch(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=50)
    fill("next", 0)
    to: dict[str, Any] = {"topic": "next", "writer": "copy"}
    run(source(spark).select("value"), "pgq", tmp_path, **to)
    shutil.rmtree(tmp_path / "checkpoint")
    fill(n=50, first=51)
    df = source(spark, newCheckpoint="true").select("value")
    with pytest.raises(Exception, match='writer "copy" belongs to the checkpoint of another query'):
        run(df, "pgq", tmp_path, **to)
    assert stats(db, "next") == (50, 0, 0)
    assert stats(db) == (0, 50, 0)
    run(df, "pgq", tmp_path, **to, newCheckpoint="true")
    copied = spark.read.format("pgq").option("topic", "next").load()
    assert numbers(copied) == list(range(1, 101))
