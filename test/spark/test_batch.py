"""Reading and writing batches."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as source
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

import pgq.spark
from harness.spark import Fill, stats
from pgq import embedded
from pgq.errors import LeaseLost
from pgq.spark import _stage
from pgq.spark._rows import PLAN, ServerError, column_names, quoted, schema_of, select
from pgq.spark._stage import MessageStaging, Staged
from pgq.spark.options import BATCH_READ, OptionError, Options
from pgq.spark.sink import PgqStreamWriter, PgqWriter
from pgq.spark.source import PgqDataSource, PushingReader, slices_for


def numbers(df: DataFrame) -> list[int]:
    return sorted(json.loads(row["value"])["n"] for row in df.select("value").collect())


def test_peeking_shows_ready_messages_and_claims_nothing(
    spark: SparkSession, db: psycopg.Connection, fill: Fill
) -> None:
    fill()
    db.execute("select pgq.claim('work', n => 100)")
    df = spark.read.format("pgq").option("topic", "work").option("numPartitions", 3).load()
    assert df.rdd.getNumPartitions() == 3
    assert numbers(df) == list(range(101, 1001))
    assert numbers(df) == list(range(101, 1001))
    assert stats(db) == (900, 100, 0)


def test_a_claim_has_attempts_and_keys_equal_or_different(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill(n=4)
    for first, keys in ((True, {None}), (False, {None, "g"})):
        with pgq.spark.claim(spark, "work", n=9, dsn=dsn, partitions=2) as claim:
            rows = claim.df.select("id", "key", "attempt").collect()
            assert {row["key"] for row in rows} == keys
            attempts = [row["attempt"] for row in sorted(rows, key=lambda row: row["id"])]
            assert attempts == ([1, 1, 1, 1] if first else [2, 2, 2, 2, 1])
            assert [row["key"] for row in claim.df.select("key").collect()].count(None) == 4
            claim.nack()
        db.execute("update pgq.scheduled set due_at = now()")
        if first:
            db.execute("select pgq.publish('work', '{\"n\": 5}', group_key => 'g')")


def test_a_filter_is_decided_by_the_database(spark: SparkSession, fill: Fill) -> None:
    fill()
    reader = spark.read.format("pgq").option("subscribe", "work")
    df = reader.option("filter", '{"type": "a", "payload.n": {"$lt": 10}}').load()
    assert numbers(df) == [3, 6, 9]


def scanned(df: DataFrame) -> tuple[list[int], int]:
    """The ids that a query returns, and how many rows Spark got from the source for it."""
    plan: Any = df.select("id")
    plan = plan._jdf.queryExecution().executedPlan()
    found = [row.getLong(0) for row in plan.executeCollect()]
    return found, int(plan.collectLeaves().head().metrics().apply("numOutputRows").value())


def test_conditions_are_decided_by_the_database_where_spark_hands_them_over(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill(n=100)
    setting = "spark.sql.python.filterPushdown.enabled"
    try:
        for enabled, size in (("false", 100), ("true", 3)):
            spark.conf.set(setting, enabled)
            pgq.spark.register(spark, dsn)
            rows = spark.read.format("pgq").option("topic", "work").load()
            wanted = F.col("id").between(5, 7) & (F.col("timestamp") > F.lit("2020-01-01"))
            assert scanned(rows.where(wanted)) == ([5, 6, 7], size)
    finally:
        spark.conf.unset(setting)


def test_what_is_handed_over_reads_the_same_messages_in_every_mode(
    db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill(n=100)
    db.execute(
        "select pgq.publish('work', jsonb_build_object('n', i), priority => i,"
        " group_key => 'g' || i, sender => case when i = 102 then 's' end)"
        " from generate_series(101, 103) i"
    )
    row = db.execute("select max(published_at) from pgq.message").fetchone()
    assert row is not None
    late = row[0]
    cases: list[tuple[list[source.Filter], list[int]]] = [
        ([source.EqualTo(("id",), 5)], [5]),
        ([source.GreaterThanOrEqual(("id",), 2), source.LessThan(("id",), 5)], [2, 3, 4]),
        (
            [source.GreaterThan(("id",), 98), source.LessThanOrEqual(("priority",), 101)],
            [99, 100, 101],
        ),
        ([source.In(("id",), (1, 3))], [1, 3]),
        ([source.EqualTo(("key",), "g102")], [102]),
        ([source.IsNotNull(("sender",))], [102]),
        ([source.GreaterThan(("id",), 101), source.IsNull(("sender",))], [103]),
        ([source.GreaterThanOrEqual(("timestamp",), late)], [101, 102, 103]),
        ([source.LessThanOrEqual(("timestamp",), late), source.GreaterThan(("id",), 102)], [103]),
        ([source.EqualTo(("topic",), "other")], []),
        # Only Spark can decide these.
        ([source.EqualTo(("value",), "1"), source.GreaterThan(("id",), 102)], [103]),
        ([source.Not(source.EqualTo(("id",), 103)), source.GreaterThan(("id",), 102)], [103]),
        ([source.GreaterThan(("key",), "g102"), source.GreaterThan(("id",), 102)], [103]),
        ([source.EqualTo(("headers", "id"), 1), source.GreaterThan(("id",), 102)], [103]),
    ]
    for mode in ("peek", "log", "all", "claim"):
        given = {"dsn": dsn, "topic": "work", "mode": mode, "includeAll": "true"}
        given |= {"key": "job"} if mode == "claim" else {}
        for filters, wanted in cases:
            names = column_names(more=True)
            reader = PushingReader(Options(given, BATCH_READ, "reading"), schema_of(names))
            assert list(reader.pushFilters(filters)) == filters
            batches = [batch for part in reader.partitions() for batch in reader.read(part)]
            found = [id for batch in batches for id in batch.column("id").to_pylist()]
            assert sorted(found) == wanted, (mode, filters)


def test_columns_are_those_of_a_message(
    spark: SparkSession, db: psycopg.Connection, fill: Fill
) -> None:
    fill(n=0)
    db.execute(
        "select pgq.publish('work', '{\"a\": 1}', headers => '{\"h\": 1}', priority => 7,"
        " group_key => 'g', sender => 's', correlation_id => 'c', expires_in => '1 hour')"
    )
    reader = spark.read.format("pgq").option("topic", "work")
    (row,) = reader.option("includeAll", "true").load().collect()
    published = db.execute("select id, published_at, expires_at from pgq.message").fetchone()
    assert published is not None
    found = row.asDict()
    assert found.pop("timestamp") == published[1].replace(tzinfo=None)
    assert found.pop("expires_at") == published[2].replace(tzinfo=None)
    assert found == {
        "id": published[0],
        "topic": "work",
        "key": "g",
        "value": '{"a": 1}',
        "headers": '{"h": 1}',
        "priority": 7,
        "attempt": 0,
        "sender": "s",
        "recipient": None,
        "reply_to": None,
        "correlation_id": "c",
    }
    short = reader.option("includeAll", "false").option("includeHeaders", "false").load()
    assert short.columns == ["id", "topic", "key", "value", "timestamp", "priority", "attempt"]


def test_the_log_also_has_finished_messages(
    spark: SparkSession, db: psycopg.Connection, fill: Fill
) -> None:
    fill()
    fill("other", 5)
    db.execute("select pgq.ack(lease_id) from pgq.claim('work', n => 1000) limit 1")
    reader = spark.read.format("pgq").option("mode", "log").option("topic", "work")
    df = reader.option("numPartitions", 4).load()
    assert df.rdd.getNumPartitions() == 4
    assert numbers(df) == list(range(1, 1001))
    assert numbers(reader.option("filter", '{"payload.n": {"$gt": 998}}').load()) == [999, 1000]


def test_a_named_claim_is_the_same_however_often_it_is_read(
    spark: SparkSession, db: psycopg.Connection, fill: Fill
) -> None:
    fill()
    reader = spark.read.format("pgq").options(topic="work", mode="claim", key="job", n=300)
    df = reader.option("numPartitions", 2).load()
    assert df.count() == 300
    assert numbers(df.orderBy("id")) == list(range(1, 301))
    assert numbers(reader.load()) == list(range(1, 301))
    assert stats(db) == (700, 300, 0)
    db.execute("select pgq.ack(pgq.named_lease('work', 'job'))")
    with pytest.raises(Exception, match="the claim 'job' of queue 'work' has ended"):
        df.count()
    assert numbers(reader.load()) == list(range(301, 601))


def test_a_handle_acknowledges_successes_and_refuses_the_rest(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill(max_attempts="1")
    with pgq.spark.claim(spark, "work", {"type": "a"}, 100, partitions=2) as claim:
        assert (claim.size, claim.df.count()) == (100, 100)
        # No Python data source, which would start two processes to plan a read.
        assert "MapInArrow" in claim.df._jdf.queryExecution().toString()
        good = F.get_json_object("value", "$.n").cast("int") < 200
        assert claim.ack(claim.df.where(good)) == 66
        assert claim.df.count() == 34
        assert claim.nack(claim.df.where(~good).limit(4), error="too large") == 4
        assert claim.ack(claim.df.limit(0)) == 0
    assert stats(db) == (900, 0, 0)
    errors = db.execute("select error, count(*) from pgq.dead_letter group by 1").fetchall()
    assert errors == [("too large", 4)]
    with pytest.raises(ValueError, match="id"):
        pgq.spark.claim(spark, "work", n=1, dsn=dsn).ack(spark.range(1).toDF("other"))


def test_a_handle_releases_the_messages_after_a_refused_one_of_a_group(
    spark: SparkSession,
    db: psycopg.Connection,
    dsn: str,
    fill: Fill,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(n=0, backoff="1 hour", max_backoff="1 hour")
    for number in range(1, 5):
        db.execute("select pgq.publish('work', to_jsonb(%s::int), group_key => 'g')", [number])
    with pgq.spark.claim(spark, "work", n=10, dsn=dsn, key="run") as claim:
        assert claim.df.count() == 4
        again = pgq.spark.claim(spark, "work", n=1, dsn=dsn, key="run")
        assert again.size == 4
        assert "has a claim named 'run'" in caplog.text
        assert claim.nack(claim.df.where("value = '2'"), error="no") == 1
        assert [row["value"] for row in claim.df.collect()] == ["1"]
    assert stats(db) == (0, 0, 1)
    assert db.execute("select count(*) from pgq.group_line").fetchall() == [(2,)]
    assert not db.execute("select * from pgq.check()").fetchall()


def test_a_handle_refuses_the_remaining_messages_of_a_failed_block(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill(n=10, backoff="1 hour", max_backoff="1 hour")

    def fail() -> None:
        with pgq.spark.claim(spark, "work", n=10, dsn=dsn) as claim:
            claim.ack(claim.df.limit(3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert stats(db) == (0, 0, 7)
    with pgq.spark.claim(spark, "work", n=10, dsn=dsn) as claim:
        assert (claim.size, claim.df.count(), claim.ack()) == (0, 0, 0)


def test_a_handle_renews_its_lease_and_reports_a_broken_one(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill(n=10)
    short = timedelta(seconds=1)
    claim = pgq.spark.claim(spark, "work", n=10, dsn=dsn, key="mine", lease=short)
    db.execute("select pg_sleep(2.5)")
    assert db.execute("select count(*) from pgq.claim('work', n => 10)").fetchone() == (0,)
    again = pgq.spark.claim(spark, "work", n=10, dsn=dsn, key="mine", lease=short)
    assert again.lease_id == claim.lease_id
    assert again.release() == 10
    with pytest.raises(LeaseLost):
        claim.ack()
    open_ones = "select from pg_stat_activity where application_name = 'pgq spark claim'"
    deadline = time.monotonic() + 10
    while db.execute(open_ones).fetchone() is not None:
        assert time.monotonic() < deadline, "a claim that is over keeps its connection"
        time.sleep(0.1)


def test_plain_jdbc_reads_a_named_claim(
    spark: SparkSession, db: psycopg.Connection, server: embedded.Server, fill: Fill
) -> None:
    fill()
    reader = jdbc(spark, server, db)
    query = "select id, payload::text as value from pgq.claim('work', n => 100, key => 'jdbc')"
    df = reader.option("query", query).load()
    assert numbers(df) == numbers(df) == list(range(1, 101))
    assert stats(db) == (900, 100, 0)


def test_plain_jdbc_publishes_because_any_insert_does(
    spark: SparkSession, db: psycopg.Connection, server: embedded.Server, fill: Fill
) -> None:
    fill(n=0)
    options = jdbc_options(server, db) | {"stringtype": "unspecified", "dbtable": "pgq.message"}
    rows = spark.range(50).selectExpr("'work' as topic", "to_json(struct(id as n)) as payload")
    rows.write.format("jdbc").options(**options).mode("append").save()
    assert stats(db) == (50, 0, 0)


def jdbc_options(server: embedded.Server, db: psycopg.Connection) -> dict[str, str]:
    address = conninfo_to_dict(server.dsn(db.info.dbname, tcp=True))
    return {
        "url": f"jdbc:postgresql://{address['host']}:{address['port']}/{address['dbname']}",
        "user": str(address["user"]),
        "password": str(address["password"]),
        "driver": "org.postgresql.Driver",
    }


def jdbc(spark: SparkSession, server: embedded.Server, db: psycopg.Connection) -> Any:
    return spark.read.format("jdbc").options(**jdbc_options(server, db))


def test_writing_publishes_all_or_nothing(
    spark: SparkSession, db: psycopg.Connection, fill: Fill
) -> None:
    fill(n=0)
    moment = datetime(2030, 1, 2, 3, 4, 5, 678901)
    rows = [
        ("work", '{"n": 1}', '{"h": "x"}', "g", 5, "s", None, moment),
        ("work", '"a, \\"b\\"\\n"', None, "", None, None, "", None),
    ]
    names = "topic string, value string, headers string, key string, priority int, sender string"
    df = spark.createDataFrame(rows, names + ", recipient string, expires_at timestamp")
    df.coalesce(1).write.format("pgq").mode("append").save()
    found = db.execute(
        "select payload, headers, group_key, priority, sender, recipient,"
        " expires_at at time zone 'UTC' from pgq.message order by id"
    ).fetchall()
    assert found == [
        ({"n": 1}, {"h": "x"}, "g", 5, "s", None, moment),
        ('a, "b"\n', {}, "", 0, None, "", None),
    ]
    bad = spark.range(100).selectExpr("if(id = 70, 'no json', '{}') as value").repartition(1)
    with pytest.raises(Exception, match="'value' is JSON text, and \"no json\" is not"):
        bad.write.format("pgq").option("topic", "work").mode("append").save()
    assert stats(db) == (2, 0, 0)
    null = spark.range(0, 4, 1, 1).selectExpr("if(id = 2, null, '{}') as value")
    with pytest.raises(Exception, match="the column 'value' is null in some rows"):
        null.write.format("pgq").option("topic", "work").mode("append").save()
    assert stats(db) == (2, 0, 0)
    assert db.execute("select count(*) from pgq.staged").fetchone() == (0,)


def test_a_bad_value_is_named_in_part_if_its_row_was_not_kept(
    db: psycopg.Connection, dsn: str, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(n=0)
    schema = StructType([StructField("value", StringType())])
    staging = MessageStaging(dsn, schema, "work")
    rows = pa.record_batch({"value": ["{}", "no json"]})
    with pytest.raises(OptionError, match=r"JSON text, and \"no json\" is not"):
        staging.stage(iter([rows]))
    monkeypatch.setattr(_stage, "KEPT", 0)
    with pytest.raises(OptionError, match=r"JSON text, and \"no\.\.\.\" is not"):
        staging.stage(iter([rows]))
    staged = staging.stage(iter([rows.slice(0, 1)] * 3))
    found = db.execute("select token::text, array_agg(position) from pgq.staged group by 1")
    assert found.fetchall() == [(staged.token, [0, 1, 2])]
    staging.discard([staged])


def test_an_epoch_of_a_writer_is_written_once(
    spark: SparkSession, db: psycopg.Connection, fill: Fill
) -> None:
    fill(n=0)
    df = spark.range(10).selectExpr("to_json(struct(id as n)) as value")
    for epoch in (1, 1, 2):
        df.write.format("pgq").mode("append").options(
            topic="work", writer="job", epoch=epoch
        ).save()
    assert stats(db) == (20, 0, 0)
    with pytest.raises(Exception, match="needs a new name"):
        df.write.format("pgq").mode("append").options(topic="work", writer="job", epoch=0).save()


def test_a_task_that_is_tried_again_publishes_nothing_twice(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    """The last row fails after all others were sent, once per task."""
    fill(n=0)
    marks = str(tmp_path)

    @F.udf("string", useArrow=False)
    def once(n: int) -> str:
        mark = Path(marks) / str(n)
        if n % 100 == 99 and not mark.exists():
            mark.touch()
            raise ValueError("injected")
        return json.dumps({"n": n})

    df = spark.range(0, 200, 1, 2).select(once("id").alias("value"))
    df.write.format("pgq").option("topic", "work").mode("append").save()
    assert len(list(tmp_path.iterdir())) == 2
    read = spark.read.format("pgq").option("topic", "work").load()
    assert numbers(read) == list(range(200))


def test_a_task_that_fails_after_it_has_staged_publishes_nothing_twice(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    """The rows of the first attempt stay staged, and are removed later."""
    fill(n=0)
    marks = str(tmp_path)

    class Failing(PgqWriter):
        def write(self, iterator: Iterator[Any]) -> Staged:
            staged = PgqWriter.write(self, iterator)
            context = TaskContext.get()
            assert context is not None
            if context.attemptNumber() == 0:
                (Path(marks) / staged.token).touch()
                raise ValueError("injected")
            return staged

    class Source(PgqDataSource):
        @classmethod
        def name(cls) -> str:
            return "failing"

        def writer(self, schema: StructType, overwrite: bool) -> PgqWriter:
            return Failing(self.options, schema, overwrite)

    spark.dataSource.register(Source)
    df = spark.range(0, 200, 1, 2).selectExpr("to_json(struct(id as n)) as value")
    df.write.format("failing").options(dsn=dsn, topic="work").mode("append").save()
    failed = {file.name for file in tmp_path.iterdir()}
    assert len(failed) == 2
    left = db.execute("select distinct token::text from pgq.staged").fetchall()
    assert {token for (token,) in left} == failed
    read = spark.read.format("pgq").option("topic", "work").load()
    assert numbers(read) == list(range(200))
    db.execute("update pgq.staged set staged_at = staged_at - interval '2 days'")
    db.execute("call pgq.maintain()")
    assert db.execute("select count(*) from pgq.staged").fetchone() == (0,)


def test_the_log_is_the_same_however_often_it_is_read(
    spark: SparkSession, db: psycopg.Connection, connect: Any, fill: Fill
) -> None:
    """The plan waits for open publishers; later ones are not visible."""
    fill(n=10)
    late = connect()
    reader = spark.read.format("pgq").options(mode="log", topic="work", numPartitions=3)
    with late.transaction():
        late.execute("select pgq.publish('work', '{\"n\": 11}')")
        fill(n=1, first=12)
        with pytest.raises(Exception, match="has published and not committed"):
            reader.option("timeout", "200 ms").load().collect()
    df = reader.load()
    assert numbers(df) == list(range(1, 13))
    fill(n=5, first=13)
    assert numbers(df) == list(range(1, 13))
    assert numbers(reader.load()) == list(range(1, 18))


def test_roles_need_the_rights_to_publish_and_to_consume_and_no_others(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill(n=10)
    fill("closed", 1)
    role = f"spark_{db.info.dbname}"
    db.execute(f"create role {role} login".encode())
    try:
        for right in ("publish", "consume"):
            db.execute("select pgq.grant_queue('work', %s, %s)", [role, right])
        mine = make_conninfo(dsn, user=role)
        rows = spark.range(5).selectExpr("'{\"n\": 11}' as value")
        out = rows.write.format("pgq").mode("append").options(dsn=mine, writer="mine", epoch=1)
        out.option("topic", "work").save()
        reader = spark.read.format("pgq").option("dsn", mine)
        assert reader.options(topic="work").load().count() == 15
        assert reader.options(topic="work", mode="log").load().count() == 15
        with pgq.spark.claim(spark, "work", n=3, dsn=mine) as claim:
            assert claim.df.count() == 3
        assert stats(db) == (12, 0, 0)
        for attempt in (
            lambda: out.options(topic="closed", epoch=2).save(),
            lambda: reader.options(topic="closed", mode="log").load().collect(),
            lambda: pgq.spark.claim(spark, "closed", dsn=mine),
        ):
            with pytest.raises(Exception, match="permission denied"):
                attempt()
    finally:
        db.execute(
            "select pgq.revoke_queue('work', %s, r) from unnest('{publish,consume}'::text[]) r",
            [role],
        )
        db.execute(f"drop owned by {role}; drop role {role}".encode())


def test_a_fragmented_claim_is_read_by_its_ranges_whatever_the_statistics_say(
    db: psycopg.Connection,
) -> None:
    """With statistics of half the log the planner would look up the range of each message."""
    db.execute("select pgq.create_queue('work')")
    for first, last in ((1, 20_000), (20_001, 40_000)):
        db.execute(
            "insert into pgq.message (topic, headers, payload) select 'work',"
            " jsonb_build_object('tenth', i %% 10 = 0), '1' from generate_series(%s, %s::int) i",
            [first, last],
        )
        if first == 1:
            db.execute("analyze")
    held = db.execute("select lease_id from pgq.hold('work', 'k', '{\"tenth\": true}', 9999)")
    ((lease,),) = held.fetchall()
    rows = quoted(
        "pgq.leased_message where lease_id = {0} and id >= {1} and id < {2}"
        " and range_low < {2} and range_high > {1}",
        lease,
        30_000,
        40_001,
    )
    with db.transaction():
        db.execute(f"select {PLAN}".encode())
        plan = db.execute(f"explain {select(['id', 'value'], rows)}".encode()).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert text.index("unnest") < text.index("message_0"), text
    assert "Memoize" not in text


def test_a_handle_survives_a_restart_of_the_server_and_keeps_the_users_error(
    spark: SparkSession, server: embedded.Server, connect: Any, fill: Fill
) -> None:
    fill(n=10)
    with pgq.spark.claim(spark, "work", n=5) as claim:
        server.restart()
        assert claim.ack(claim.df.limit(2)) == 2
    assert stats(connect()) == (5, 0, 0)

    def fail() -> None:
        with pgq.spark.claim(spark, "work", n=5):
            db = connect()
            db.execute("alter function pgq.nack rename to not_now")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    connect().execute("alter function pgq.not_now rename to nack")


def test_a_writer_survives_a_restart_of_the_server(
    server: embedded.Server, dsn: str, connect: Any, fill: Fill
) -> None:
    import pyarrow as pa

    fill(n=0)
    rows = pa.RecordBatch.from_pydict({"value": ['{"n": 1}', '{"n": 2}']})
    schema = StructType([StructField("value", StringType())])
    options = {"dsn": dsn, "topic": "work", "writer": "w", "epoch": "1"}
    writer = PgqWriter(options, schema, False)

    def batches() -> Iterator[Any]:
        yield rows
        server.restart()
        yield rows

    staged = writer.write(batches())
    assert staged.size == 4
    server.restart()
    writer.commit([staged])
    writer.commit([staged])
    found = connect().execute("select payload -> 'n' from pgq.message order by id").fetchall()
    assert [n for (n,) in found] == [1, 2, 1, 2]


def test_a_batch_of_a_stream_waits_for_a_server_that_is_being_restarted(
    dsn: str, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(n=0)
    failures = [ServerError("not yet"), ServerError("not yet")]
    really = pgq.spark._rows.connect

    def connect(dsn: str, name: str) -> Any:
        if failures:
            raise failures.pop()
        return really(dsn, name)

    monkeypatch.setattr("pgq.spark._rows.connect", connect)
    monkeypatch.setattr("pgq.spark._rows.time.sleep", lambda seconds: None)
    schema = StructType([StructField("value", StringType())])
    options = {"dsn": dsn, "topic": "work", "writer": "w"}
    PgqStreamWriter(options, schema, False)
    assert failures == []
    failures.append(ServerError("not now"))
    with pytest.raises(ServerError, match="not now"):
        PgqWriter(options | {"epoch": "1"}, schema, False)


def test_a_venv_that_is_not_activated_runs_its_own_python(
    spark: SparkSession, dsn: str, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(n=3)
    monkeypatch.delenv("PYSPARK_PYTHON")
    context: Any = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "/without/psycopg/python3")
    pgq.spark.register(spark, dsn)
    assert spark.read.format("pgq").option("topic", "work").load().count() == 3


def test_readers_are_as_many_as_the_cores_of_the_executors_allow() -> None:
    assert (slices_for(10), slices_for(1_000_000, 16), slices_for(100_000, 16)) == (1, 32, 5)


def test_one_default_lease_and_number_everywhere(
    spark: SparkSession, db: psycopg.Connection, fill: Fill
) -> None:
    fill(n=30)
    spark.sql("select count(*) from pgq_claim('work', n => 10, key => 'sql')").collect()
    named = spark.read.format("pgq").options(topic="work", mode="claim")
    named.options(key="option", n=10).load().count()
    claim = pgq.spark.claim(spark, "work", key="handle")
    leases = db.execute("select key, until - claimed_at, size from pgq.leases order by 1")
    hour = timedelta(hours=1)
    assert leases.fetchall() == [("handle", hour, 10), ("option", hour, 10), ("sql", hour, 10)]
    claim.release()
    assert spark.sql("select * from pgq_claim('work', key => 'all')").count() == 10


LOADS = [
    ({"topic": "work", "topci": "x"}, "knows no option 'topci'"),
    ({"topic": "work", "mode": "take"}, "peek or claim or log"),
    ({"topic": "work", "mode": "claim"}, "need the option 'key'"),
    ({"topic": "work", "includeHeaders": "yes"}, "is true or false, not 'yes'"),
    ({"topic": "work", "numPartitions": "many"}, "from 0 to 10000"),
    ({"topic": "work", "lease": "soon"}, "a time such as"),
    ({"topic": "work", "filter": "[1]"}, "JSON object"),
    ({"path": "work"}, "name the queue by the option 'topic'"),
]


@pytest.mark.parametrize(("options", "message"), LOADS)
def test_options_are_checked_when_they_are_given(options: dict[str, str], message: str) -> None:
    """Spark makes the source when load() is called."""
    with pytest.raises(OptionError, match=message):
        PgqDataSource(options)


READS = [
    ({}, "needs the option 'topic'"),
    ({"topic": " "}, "needs the option 'topic'"),
    ({"topic": "work", "key": "k"}, "is for mode 'claim'"),
    ({"topic": "work", "timeout": "1 s"}, "is for mode 'log'"),
    ({"topic": "work", "consumer": "etl"}, "knows no option 'consumer' for reading"),
    ({"topic": "work", "mode": "claim", "key": "k", "n": "0"}, "from 1 to 1000000"),
    ({"topic": "work", "mode": "claim", "key": "k", "n": "many"}, "from 1 to 1000000"),
    ({"topic": "work", "mode": "claim", "key": "k", "replica": "x"}, "not claimed from"),
    ({"topic": "work", "filter": "{"}, "is not JSON"),
]


@pytest.mark.parametrize(("options", "message"), READS)
def test_options_are_checked_before_the_plan_is_made(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        PgqDataSource(options).reader(schema_of(column_names()))


BAD_READS = [
    ({"topic": "work", "topci": "x"}, "knows no option 'topci'"),
    ({"topic": "work", "mode": "claim", "key": "k", "replica": "x"}, "not claimed from"),
    ({"topic": "work", "filter": '{"a": {"$what": 1}}'}, r"\$what"),
    ({"topic": "nowhere"}, "nowhere"),
    ({"topic": "work", "dsn": "host=127.0.0.1 port=1"}, "cannot connect"),
]


def test_bad_input_is_one_clear_error_before_any_claim(
    spark: SparkSession, db: psycopg.Connection, server: embedded.Server, fill: Fill
) -> None:
    fill(n=10)
    for options, message in BAD_READS:
        with pytest.raises(Exception, match=message):
            spark.read.format("pgq").options(**options).load().collect()
    with pytest.raises(Exception, match="no column 'amount'"):
        spark.read.schema("amount int").format("pgq").option("topic", "work").load().collect()
    with pytest.raises(Exception, match="'id' is bigint"):
        spark.read.schema("id string").format("pgq").option("topic", "work").load().collect()
    empty = server.create_database("without_pgq")
    with pytest.raises(Exception, match="no pgq, or one that is too old"):
        spark.read.format("pgq").options(topic="work", dsn=empty).load().collect()
    server.drop_database("without_pgq")
    db.execute("alter function pgq.backlog(text, pgq.caller) rename to backlog_of_tomorrow")
    with pytest.raises(Exception, match="too old"):
        spark.read.format("pgq").option("topic", "work").load().collect()
    db.execute("alter function pgq.backlog_of_tomorrow rename to backlog")
    assert stats(db) == (10, 0, 0)


def test_bad_rows_are_refused_before_they_are_staged(
    spark: SparkSession, db: psycopg.Connection, fill: Fill
) -> None:
    fill(n=0)
    good = spark.range(1).selectExpr("'{}' as value")
    cases = [
        (good, {}, "'topic' or a column 'topic'"),
        (
            good.withColumn("amount", F.lit(1)),
            {"topic": "work"},
            r"cannot write the column 'amount'.*df.select\('value', 'headers'\)",
        ),
        (spark.range(1).selectExpr("id as value"), {"topic": "work"}, r"to_json\(value\)"),
        (spark.range(1).selectExpr("'a' as headers"), {"topic": "work"}, "column 'value'"),
        (good.withColumn("priority", F.lit("x")), {"topic": "work"}, "cast it to int"),
        (good, {"topic": "work", "writer": "w"}, "belong together"),
        (good, {"topic": "work", "writer": "w", "epoch": "x"}, "is a number"),
        (good, {"topic": "work", "mode": "peek"}, "knows no option 'mode'"),
        (good, {"topic": "nowhere"}, "nowhere"),
    ]
    for df, options, message in cases:
        with pytest.raises(Exception, match=message):
            df.write.format("pgq").mode("append").options(**options).save()
    with pytest.raises(Exception, match="cannot be overwritten"):
        good.write.format("pgq").mode("overwrite").option("topic", "work").save()
    assert stats(db) == (0, 0, 0)
