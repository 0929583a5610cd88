"""Whole jobs: archive, replay, dlq-report, drain."""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pgq.spark
from harness.damage import damage
from harness.spark import Fill, close_era, maintain_until, stats
from pgq import embedded
from pgq.cli import main
from pgq.spark._copy import Directory, publish_files
from pgq.spark.pipelines import read_archive


def numbers(df: DataFrame) -> list[int]:
    return sorted(json.loads(row["value"])["n"] for row in df.select("value").collect())


def test_the_log_is_archived_confirmed_and_only_then_emptied(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=90)
    fill("7", 10)
    db.execute("call pgq.maintain()")
    damage(db, "update pgq.message_0 set sender = 'me' where id = 1")
    damage(db, "update pgq.message_0 set published_at = '2030-01-02 23:30Z' where id <= 20")
    db.execute("select pgq.ack(lease_id) from pgq.claim('work', n => 80) limit 1")
    db.execute("select pgq.ack(lease_id) from pgq.claim('7', n => 10) limit 1")
    target = str(tmp_path / "archive")
    assert pgq.spark.archive(spark, target, dsn=dsn) == []
    close_era(db)
    close_era(db)
    assert db.execute("select count(*) from pgq.message").fetchone() == (100,)

    (done,) = pgq.spark.archive(spark, target, dsn=dsn, replica=dsn, partitions=2)
    assert (done.era, done.messages) == (0, 90)
    files = {str(file.relative_to(done.path).parent) for file in Path(done.path).rglob("*.parquet")}
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert files == {"topic=work/day=2030-01-02", f"topic=work/day={today}", f"topic=7/day={today}"}
    rows = read_archive(spark, target)
    assert numbers(rows.where("topic = 'work'")) == list(range(1, 81))
    assert numbers(rows.where("topic = '7'")) == list(range(1, 11))
    assert numbers(rows.where("sender = 'me'")) == [1]
    assert rows.where("sender is null and recipient is null and key is null").count() == 89
    assert stats(db) == (10, 0, 0)

    maintain_until(db, 10)
    # What was not finished is in the copy of its next era.
    db.execute("select pgq.ack(lease_id) from pgq.claim('work', n => 80) limit 1")
    close_era(db)
    pgq.spark.archive(spark, target, dsn=dsn)
    assert numbers(read_archive(spark, target).where("topic = 'work'")) == list(range(1, 91))


def test_a_standby_is_archived_from_and_any_filesystem_of_hadoop_archived_to(
    spark: SparkSession,
    server: embedded.Server,
    db: psycopg.Connection,
    dsn: str,
    fill: Fill,
    tmp_path: Path,
) -> None:
    java: Any = spark.sparkContext._jsc
    java.hadoopConfiguration().set("fs.viewfs.mounttable.lake.link./q", f"file://{tmp_path}")
    with server.standby() as standby, psycopg.connect(standby.dsn(), autocommit=True) as other:
        replica = standby.dsn(db.info.dbname)
        # The standby is behind, and goes on when the archive waits for it.
        other.execute("select pg_wal_replay_pause()")
        over = threading.Event()

        def go_on() -> None:
            waiting = "select from pg_stat_activity where application_name = 'pgq spark archive'"
            while not over.wait(0.2):
                if other.execute(waiting).fetchone() is not None:
                    other.execute("select pg_wal_replay_resume()")
                    return

        fill(n=60)
        fill("again", 0)
        db.execute("select pgq.ack(lease_id) from pgq.claim('work', n => 50) limit 1")
        close_era(db)
        target = "viewfs://lake/q/archive"
        helper = threading.Thread(target=go_on)
        helper.start()
        try:
            (done,) = pgq.spark.archive(spark, target, dsn=dsn, replica=replica)
        finally:
            over.set()
            helper.join()
        assert done.messages == 50
        peeked = spark.read.format("pgq").options(topic="work", replica=replica).load()
        assert numbers(peeked) == list(range(51, 61))
    assert list((tmp_path / "archive").rglob("*.parquet"))
    assert pgq.spark.replay(spark, target, dsn=dsn, to="again") == 50
    assert stats(db, "again") == (50, 0, 0)


def done_era(db: psycopg.Connection, fill: Fill) -> None:
    fill(n=30)
    db.execute("select pgq.ack(lease_id) from pgq.claim('work', n => 80) limit 1")
    close_era(db)


def confirmed(db: psycopg.Connection) -> Any:
    return db.execute("select count(*) from pgq.era where archived_at is not null").fetchone()


def test_a_copy_that_differs_is_not_confirmed(
    spark: SparkSession,
    db: psycopg.Connection,
    dsn: str,
    fill: Fill,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done_era(db, fill)

    def damaged(spark: SparkSession, files: list[str]) -> tuple[int, int]:
        """As if the disk had changed one payload."""
        (file,) = files
        rows = pq.read_table(file, partitioning=None).to_pylist()
        rows[7]["value"] = "{}"
        pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(file)), file)
        return publish_files(spark, files)

    with monkeypatch.context() as patch:
        patch.setattr("pgq.spark.pipelines.publish_files", damaged)
        with pytest.raises(psycopg.errors.DataCorrupted, match="not what the era holds"):
            pgq.spark.archive(spark, str(tmp_path), dsn=dsn)
    assert confirmed(db) == (0,)
    (done,) = pgq.spark.archive(spark, str(tmp_path), dsn=dsn)
    assert done.messages == 30
    # A directory that has files, as after a restored backup, is not written to.
    db.execute("delete from pgq.archive_copy")
    db.execute("update pgq.era set archived_at = null where number = 0")
    db.execute("insert into pgq.archive_copy (era, copy_id) values (0, %s)", [uuid.UUID(int=0)])
    (again,) = Path(done.path).rglob("*.parquet")
    there = tmp_path / f"{Path(done.path).name[:-10]}00000000-2" / "topic=work"
    there.mkdir(parents=True)
    shutil.copy(again, there)
    with pytest.raises(Exception, match="has files of another archive"):
        pgq.spark.archive(spark, str(tmp_path), dsn=dsn)
    assert confirmed(db) == (0,)


def test_a_copy_by_hadoop_that_differs_is_not_confirmed(
    spark: SparkSession,
    db: psycopg.Connection,
    dsn: str,
    fill: Fill,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    java: Any = spark.sparkContext._jsc
    java.hadoopConfiguration().set("fs.viewfs.mounttable.other.link./q", f"file://{tmp_path}")
    done_era(db, fill)

    def damaged(spark: SparkSession, target: str, *paths: str) -> DataFrame:
        """As if the disk had changed one payload."""
        changed = F.when(F.col("id") == 7, F.lit("{}")).otherwise(F.col("value"))
        return read_archive(spark, target, *paths).withColumn("value", changed)

    with monkeypatch.context() as patch:
        patch.setattr("pgq.spark.pipelines.read_archive", damaged)
        with pytest.raises(psycopg.errors.DataCorrupted, match="not what the era holds"):
            pgq.spark.archive(spark, "viewfs://other/q", dsn=dsn)
    assert confirmed(db) == (0,)
    (done,) = pgq.spark.archive(spark, "viewfs://other/q", dsn=dsn)
    assert done.messages == 30


def test_the_files_of_an_attempt_that_was_repeated_are_not_read(
    spark: SparkSession,
    db: psycopg.Connection,
    dsn: str,
    fill: Fill,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task that fails when it has written, and topics with characters that paths do not have."""
    odd = "\u00fcber/odd=%topic"
    fill(n=20)
    fill(odd, 10)
    for queue in ("work", odd):
        db.execute("select pgq.ack(lease_id) from pgq.claim(%s, n => 80) limit 1", [queue])
    close_era(db)
    mark = tmp_path / "failed"

    class Failing(Directory):
        def close(self) -> list[str]:
            files = super().close()
            if not mark.exists():
                mark.touch()
                raise OSError("injected")
            return files

    monkeypatch.setattr("pgq.spark._copy.Directory", Failing)
    monkeypatch.setattr("pgq.spark._copy.OPEN", 1)
    (done,) = pgq.spark.archive(spark, str(tmp_path / "a"), dsn=dsn, partitions=1)
    assert mark.exists()
    assert done.messages == 30
    assert len(list(Path(done.path).rglob(".part*"))) == 2
    assert len(list(Path(done.path).rglob("*.parquet"))) == 2
    rows = read_archive(spark, str(tmp_path / "a"))
    assert numbers(rows.where(F.col("topic") == odd)) == list(range(1, 11))
    whole = spark.read.format("pgq").options(mode="all", topic=odd).load()
    assert numbers(whole) == list(range(1, 11))


def test_archived_messages_are_replayed_once(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=60)
    fill("again", 0)
    db.execute("select pgq.ack(lease_id) from pgq.claim('work', n => 80) limit 1")
    close_era(db)
    target = str(tmp_path)
    pgq.spark.archive(spark, target, dsn=dsn)
    chosen: dict[str, Any] = {
        "dsn": dsn,
        "topic": "work",
        "filter": {"type": "a", "payload.n": {"$lte": 30}},
        "since": datetime.now(UTC) - timedelta(hours=1),
        "until": datetime.now(UTC) + timedelta(hours=1),
        "to": "again",
    }
    assert pgq.spark.replay(spark, target, **chosen, dry_run=True) == 10
    assert stats(db, "again") == (0, 0, 0)
    assert pgq.spark.replay(spark, target, **chosen) == 10
    assert pgq.spark.replay(spark, target, **chosen) == 0
    assert pgq.spark.replay(spark, target, **chosen | {"name": "once more"}) == 10
    assert stats(db, "again") == (20, 0, 0)
    df = spark.read.format("pgq").option("topic", "again").load()
    assert numbers(df) == sorted([*range(3, 31, 3)] * 2)
    # One that has found nothing is not done.
    assert pgq.spark.replay(spark, target, dsn=dsn, topic="wrok", name="typo") == 0
    assert db.execute("select from pgq.writer where writer = 'replay typo'").fetchall() == []
    chosen = {"topic": "work", "filter": {"payload.n": 30}, "to": "again", "name": "typo"}
    assert pgq.spark.replay(spark, target, dsn=dsn, **chosen) == 1
    with pytest.raises(Exception, match="what"):
        pgq.spark.replay(spark, target, dsn=dsn, filter={"a": {"$what": 1}})


def test_dead_letters_are_reported(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    assert pgq.spark.dlq_report(spark, dsn=dsn).collect() == []
    fill(n=10)
    db.execute(
        "select pgq.bury(lease_id, array_agg(id), error => '<no> amount') from"
        " pgq.claim('work', n => 7) group by lease_id"
    )
    db.execute("select pgq.bury(lease_id) from pgq.claim('work', n => 2) limit 1")
    db.execute("update pgq.dead_letter set failed_at = '2030-01-02 03:04Z'")
    rows = pgq.spark.dlq_report(spark, str(page), dsn=dsn).collect()
    hour = datetime(2030, 1, 2, 3)
    assert [tuple(row) for row in rows] == [
        ("work", "rejected", "<no> amount", hour, 7, 1, 1),
        ("work", "rejected", "", hour, 2, 1, 8),
    ]
    db.execute(
        "update pgq.dead_letter set error = format('UniqueViolation: duplicate key, Key"
        " (order_id)=(%s) of %L at 0x%s: %s', message_id, 'x' || message_id,"
        " to_hex(message_id), gen_random_uuid())"
    )
    (cause,) = pgq.spark.dlq_report(spark, dsn=dsn).collect()
    assert (cause["messages"], cause["sample"]) == (9, 1)
    assert cause["error"] == "UniqueViolation: duplicate key, Key (order_id)=(…) of '…' at …: …"
    text = page.read_text()
    assert "<h1>9 dead letters</h1>" in text
    assert "&lt;no&gt; amount" in text
    assert text.count("<svg") == 4
    assert "2030-01-02 03:00" in text


def checked(rows: DataFrame) -> DataFrame:
    n = F.get_json_object("value", "$.n").cast("int")
    bad = F.when(n % 10 == 0, F.concat(F.lit("bad "), n % 20))
    return rows.select("id", n.alias("n"), bad.alias("error"))


def test_a_queue_is_drained_and_failed_messages_return(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=90, max_attempts="1")
    target = str(tmp_path / "out")
    progress: list[str] = []

    def interrupted(rows: DataFrame) -> DataFrame:
        if progress:
            raise KeyboardInterrupt
        return checked(rows)

    with pytest.raises(KeyboardInterrupt):
        pgq.spark.drain(
            spark, "work", target, dsn=dsn, transform=interrupted, n=40, say=progress.append
        )
    assert progress == ["batch 1: 36 messages written, 4 given back"]
    assert stats(db) == (10, 40, 0)
    done = pgq.spark.drain(spark, "work", target, dsn=dsn, transform=checked, n=40)
    assert (done.batches, done.written, done.refused) == (2, 45, 5)
    found = [row["n"] for row in spark.read.parquet(target).orderBy("n").collect()]
    assert found == [n for n in range(1, 91) if n % 10]
    errors = db.execute("select error, count(*) from pgq.dead_letter group by 1 order by 1")
    assert errors.fetchall() == [("bad 0", 4), ("bad 10", 5)]
    assert stats(db) == (0, 0, 0)
    # All messages of a group are in one batch: those after a refused one are written.
    db.execute(
        "insert into pgq.message (topic, payload, group_key)"
        " select 'work', jsonb_build_object('n', i), 'g' from generate_series(101, 130) i"
    )
    done = pgq.spark.drain(spark, "work", target, dsn=dsn, transform=checked)
    assert (done.batches, done.written, done.refused) == (1, 27, 3)
    assert spark.read.parquet(target).where("n > 100").count() == 27
    assert not db.execute("select * from pgq.check()").fetchall()
    fill(n=1, max_attempts="1")
    with pytest.raises(ValueError, match="keep the column 'id'"):
        pgq.spark.drain(spark, "work", target, dsn=dsn, transform=lambda rows: rows.drop("id"))


def test_each_pipeline_is_one_command(
    spark: SparkSession,
    db: psycopg.Connection,
    dsn: str,
    fill: Fill,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(n=20, max_attempts="1")

    def run(*arguments: str) -> list[str]:
        assert main(["--dsn", dsn, "spark", *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    query = "select id, value, if(id % 10 = 0, 'tenth', null) as error from batch"
    drained = run("drain", "work", str(tmp_path / "out"), "--sql", query, "--n", "15")
    assert [line.split() for line in drained] == [
        ["batches", "written", "refused", "released"],
        ["2", "18", "2", "0"],
    ]
    report = run("dlq-report", str(tmp_path / "report.html"))
    assert report[1].split()[:3] == ["work", "processing_error", "tenth"]
    close_era(db)
    archived = run("archive", str(tmp_path / "archive"), "--wait", "1 day")
    assert archived[1].split()[:2] == ["0", "20"]
    assert db.execute("select wait from pgq.archive").fetchone() == (timedelta(days=1),)
    asked = ["--topic", "work", "--filter", '{"type": "a"}', "--since", "2020-01-01"]
    (line,) = run("replay", str(tmp_path / "archive"), *asked, "--dry-run", "--json")
    assert json.loads(line)["found"] == 6
    replayed = run("replay", str(tmp_path / "archive"), *asked, "--partitions", "1")
    assert replayed[1].split()[-1] == "6"
    assert stats(db) == (6, 0, 0)
    shutil.rmtree(tmp_path / "archive")
