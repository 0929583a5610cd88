"""One commit: rows, messages and acknowledgements of a batch in one transaction."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pgq.spark
from harness.spark import Fill, stats
from pgq.spark._table import Table, json_arrays
from pgq.spark.options import OptionError

SECONDS = 120


def source(spark: SparkSession, **options: Any) -> DataFrame:
    defaults: dict[str, Any] = {
        "topic": "work",
        "consumer": "etl",
        "timeout": "3 s",
        "numPartitions": 2,
    }
    return spark.readStream.format("pgq").options(**defaults | options).load()


def run(df: DataFrame, checkpoint: Path, function: Callable[[DataFrame, int], None]) -> None:
    query = df.writeStream.foreachBatch(function).trigger(availableNow=True)
    started = query.option("checkpointLocation", str(checkpoint)).start()
    assert started.awaitTermination(SECONDS)


def by_key(rows: DataFrame) -> DataFrame:
    n = F.get_json_object("value", "$.n").cast("long")
    return rows.groupBy((n % 3).alias("key")).agg(F.sum(n).alias("total"))


ADD = "total = t.total + excluded.total"


def test_rows_messages_and_acknowledgements_are_one_transaction(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=600)
    fill("next", 0)
    db.execute("create table public.total (key bigint primary key, total bigint not null)")
    seen: list[tuple[int, bool]] = []
    stop_at: list[int] = [1]

    def write(rows: DataFrame, batch: int) -> None:
        done = pgq.spark.commit(
            by_key(rows),
            batch,
            table="total",
            mode="upsert",
            update=ADD,
            publish=rows.where("id % 100 = 0").select("value"),
            topic="next",
        )
        seen.append((batch, done))
        if len(seen) in stop_at:
            raise ValueError("injected")

    def state() -> tuple[list[Any], int, tuple[int, int, int]]:
        total = db.execute("select key, total from total order by key").fetchall()
        return total, stats(db, "next")[0], stats(db)

    # The driver fails behind its first commit, and does not remember it.
    with pytest.raises(Exception, match="injected"):
        run(source(spark, maxMessagesPerTrigger=200), tmp_path / "1", write)
    first = {key: sum(n for n in range(1, 201) if n % 3 == key) for key in range(3)}
    assert state() == (sorted(first.items()), 2, (400, 0, 0))
    shutil.copytree(tmp_path / "1", tmp_path / "old")
    stop_at[:] = [3]
    with pytest.raises(Exception, match="injected"):
        run(source(spark, maxMessagesPerTrigger=200), tmp_path / "1", write)
    assert seen == [(0, True), (0, False), (1, True)]
    # A checkpoint from a backup, then a new one, with another query: nothing twice.
    stop_at.clear()
    fill(n=100, first=601)
    run(source(spark, maxMessagesPerTrigger=200), tmp_path / "old", write)
    fill(n=100, first=701)
    run(source(spark, maxMessagesPerTrigger=1000), tmp_path / "new", write)
    assert [done for _, done in seen[3:]] == [False, True, True, True]
    truth = {key: sum(n for n in range(1, 801) if n % 3 == key) for key in range(3)}
    assert state() == (sorted(truth.items()), 8, (0, 0, 0))
    found = db.execute(
        "select batch, size, wrote from pgq.streams where committed_at is not null order by 1"
    ).fetchall()
    assert found[0] == (1, 200, {"total": 3, "messages": 2})
    assert [size for _, size, _ in found] == [200, 200, 200, 100, 100]
    assert db.execute("select count(*) from pgq.staged").fetchone() == (0,)


def test_a_commit_that_fails_changes_nothing(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=100)
    fill("next", 0)
    db.execute("create table public.first (id bigint primary key)")
    db.execute("create table public.seen (id bigint primary key check (id <> 77))")

    def write(rows: DataFrame, batch: int) -> None:
        ids, values = rows.select("id"), rows.select("value")
        tables = {"first": ids, "seen": ids}
        pgq.spark.commit(rows, batch, table=tables, publish=values, topic="next")

    # The first table is written when the second one fails.
    with pytest.raises(Exception, match="seen_id_check"):
        run(source(spark), tmp_path, write)
    assert db.execute("select count(*) from first").fetchone() == (0,)
    assert db.execute("select count(*) from seen").fetchone() == (0,)
    assert (stats(db), stats(db, "next")) == ((0, 100, 0), (0, 0, 0))
    db.execute("alter table seen drop constraint seen_id_check")
    run(source(spark), tmp_path, write)
    assert db.execute("select count(*) from seen").fetchone() == (100,)
    assert (stats(db), stats(db, "next")) == ((0, 0, 0), (100, 0, 0))


def test_a_stream_writes_into_a_table_beside_a_queue(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=300)
    fill("next", 0)
    db.execute("create table public.seen (n bigint, made int generated always as identity)")

    def copy(checkpoint: str) -> None:
        n = F.get_json_object("value", "$.n").cast("long").alias("n")
        event = F.when(n % 100 == 0, F.col("value")).alias("event")
        query = source(spark, maxMessagesPerTrigger=150).select(n, event).writeStream
        query = query.format("pgq").options(table="seen", topic="next", publish="event")
        query = query.option("checkpointLocation", str(tmp_path / checkpoint))
        assert query.trigger(availableNow=True).start().awaitTermination(SECONDS)

    copy("1")
    fill(n=100, first=301)
    copy("2")
    assert db.execute("select n from seen order by made").fetchall() == [
        (n,) for n in range(1, 401)
    ]
    assert (stats(db), stats(db, "next")) == ((0, 0, 0), (4, 0, 0))
    assert db.execute("select count(*) from pgq.streams where wrote ? 'seen'").fetchone() == (3,)


def test_a_table_is_written_once_by_any_batch_that_has_a_writer(
    spark: SparkSession, db: psycopg.Connection
) -> None:
    """Every type that has a text; defaults, arrays, JSON."""
    db.execute(
        "create table public.typed (id int primary key, name varchar(5), price numeric(12, 3),"
        " at timestamptz, day date, raw bytea, tags text[], doc jsonb, ratio float8, ok boolean,"
        " made text default 'by default')"
    )
    rows = spark.sql(
        "select 1 as id, 'a\"\\\\,' as name, 12345.678bd as price,"
        " timestamp'2026-01-02 03:04:05.123456+00:00' as at, date'2026-01-02' as day,"
        " X'00ff' as raw, array('x', 'y,z') as tags, named_struct('a', 1) as doc,"
        " double('NaN') as ratio, true as ok"
        " union all select 2, null, null, null, null, null, null, null, null, null"
    )
    out = rows.write.format("pgq").mode("append").options(table="typed", writer="w", epoch=1)
    out.save()
    out.save()
    found = db.execute(
        "select id, name, price::text, at = '2026-01-02 03:04:05.123456Z', day::text,"
        " encode(raw, 'hex'), tags, doc, ratio::text, ok, made from typed order by id"
    ).fetchall()
    assert found == [
        (
            1,
            'a"\\,',
            "12345.678",
            True,
            "2026-01-02",
            "00ff",
            ["x", "y,z"],
            {"a": 1},
            "NaN",
            True,
            "by default",
        ),
        (2, *[None] * 9, "by default"),
    ]
    long = spark.sql("select 3 as id, 'too long' as name")
    with pytest.raises(Exception, match="value too long"):
        long.write.format("pgq").mode("append").options(table="typed", writer="w", epoch=2).save()


def test_rows_are_staged_as_the_json_that_python_writes() -> None:
    """Escapes, control characters, nulls, nested values, a batch that is a part of another."""
    rows: list[dict[str, Any]] = [
        {"text": 'a"b\\c/é😀', "n": 1, "list": ['x"', None], "raw": b"\x00\xff"},
        {"text": None, "n": None, "list": None, "raw": None},
        {"text": "", "n": -1, "list": [], "raw": b""},
        {"text": "\x01\t\n\x7f", "n": 0, "list": ["\n"], "raw": b"\n"},
    ]
    batch = pa.RecordBatch.from_pylist(rows)
    for first, last in ((0, 4), (0, 3), (1, 2), (2, 4), (4, 4)):
        part = batch.slice(first, last - first)
        found = [json.loads(text[1:]) for text in json_arrays(part.columns, len(part)).to_pylist()]
        assert found == [
            [
                row["text"],
                None if row["n"] is None else str(row["n"]),
                row["list"],
                None if row["raw"] is None else f"\\x{row['raw'].hex()}",
            ]
            for row in rows[first:last]
        ]
    assert json_arrays([], 2).to_pylist() == ["\x01[]", "\x01[]"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"table": "nowhere"},
            'relation "nowhere" does not exist: create the table first',
        ),
        ({"table": "target"}, "the table target has no column 'id'; there are key"),
        ({"table": "target", "mode": "merge"}, "'append' or 'upsert', not 'merge'"),
        ({"table": "target", "keys": ["key"]}, "for the mode 'upsert'"),
    ],
)
def test_a_bad_target_is_one_clear_error(
    spark: SparkSession,
    db: psycopg.Connection,
    dsn: str,
    options: dict[str, Any],
    message: str,
) -> None:
    db.execute("create table public.target (key int)")
    given = {"mode": "append", "keys": None} | options
    with pytest.raises(OptionError, match=message):
        Table(dsn, given["table"], spark.range(1).schema, given["mode"], given["keys"])


def test_commit_is_for_a_batch_of_a_stream(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match="batch 0 is not running here"):
        pgq.spark.commit(spark.range(1), 0, table="nowhere")
    fill(n=1)

    def nothing(rows: DataFrame, batch: int) -> None:
        pgq.spark.commit(rows, batch)

    def others(rows: DataFrame, batch: int) -> None:
        pgq.spark.commit(rows, batch, publish=spark.sql("select '1' as value"), topic="work")

    with pytest.raises(Exception, match="there is nothing to commit"):
        run(source(spark), tmp_path, nothing)
    with pytest.raises(Exception, match="nothing was read from a queue"):
        run(source(spark), tmp_path, others)
    assert stats(db) == (0, 1, 0)
