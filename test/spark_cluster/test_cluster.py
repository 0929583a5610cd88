"""Two workers: reading by executors, and failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pgq.spark
from harness.object_storage import ObjectStorage
from harness.paths import ROOT, TEST
from harness.spark import Fill, close_era, prepare, run_until_killed, stats
from pgq.spark.pipelines import read_archive


def numbers(df: DataFrame) -> list[int]:
    return sorted(json.loads(row["value"])["n"] for row in df.select("value").collect())


def executors(spark: SparkSession) -> list[int]:
    """The processes of this application's executors."""
    application = str(spark.sparkContext.applicationId).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"CoarseGrainedExecutorBackend" in line and application in line:
                found.append(int(entry.name))
    return found


def test_slices_are_read_by_the_executors(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill()

    @F.udf("string", useArrow=False)
    def where(n: int) -> str:
        return str(os.getppid())

    with pgq.spark.claim(spark, "work", n=1000, dsn=dsn, partitions=4) as claim:
        places = claim.df.select(where("id").alias("at")).distinct().count()
        assert places == 2
        assert numbers(claim.df) == list(range(1, 1001))
    assert stats(db) == (0, 0, 0)


def test_workers_that_have_the_wheel_need_no_code_of_the_driver(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill
) -> None:
    fill()

    @F.udf("string", useArrow=False)
    def place(n: int) -> str:
        import pgq.spark._rows

        return str(pgq.spark._rows.__file__)

    cloudpickle.unregister_pickle_by_value(pgq)  # type: ignore[no-untyped-call]
    try:
        spark.dataSource.register(pgq.spark.PgqDataSource)
        read = spark.read.format("pgq").options(dsn=dsn, topic="work", numPartitions=4).load()
        assert numbers(read) == list(range(1, 1001))
        (found,) = read.select(place("id").alias("at")).distinct().collect()
    finally:
        pgq.spark.register(spark, dsn)
    assert found["at"].endswith("/site/pgq/spark/_rows.py")


def test_speculation_publishes_nothing_twice(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=0)
    marks = str(tmp_path)

    @F.udf("string", useArrow=False)
    def slow(n: int) -> str:
        context = TaskContext.get()
        assert context is not None
        (Path(marks) / f"{context.partitionId()}-{context.attemptNumber()}").touch()
        if n == 399 and context.attemptNumber() == 0:
            time.sleep(20)
        return json.dumps({"n": n})

    df = spark.range(0, 400, 1, 4).select(slow("id").alias("value"))
    df.write.format("pgq").option("topic", "work").mode("append").save()
    assert len(list(tmp_path.iterdir())) > 4  # a second attempt was made
    read = spark.read.format("pgq").option("topic", "work").load()
    assert numbers(read) == list(range(400))


def test_a_killed_executor_loses_and_doubles_nothing(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=900)
    killed: list[int] = []

    def kill(rows: DataFrame, batch: int) -> None:
        if batch == 1 and not killed:
            killed.append(executors(spark)[0])
            os.kill(killed[0], signal.SIGKILL)
        rows.write.mode("overwrite").parquet(str(tmp_path / "out" / f"batch={batch}"))

    source = spark.readStream.format("pgq").options(topic="work", consumer="etl", timeout="3 s")
    df = source.options(maxMessagesPerTrigger=300, numPartitions=4).load()
    query = df.writeStream.foreachBatch(kill).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert killed
    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(1, 901))
    assert stats(db) == (0, 0, 0)


CONNECT = """
import sys
from pyspark.sql import SparkSession
import pgq.spark

dsn, place = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
pgq.spark.register(spark, dsn)
with pgq.spark.claim(spark, "work", {"type": "a"}, 100, dsn=dsn) as claim:
    claim.df.select("value").write.format("pgq").option("topic", "next").mode("append").save()
stream = spark.readStream.format("pgq").options(topic="work", consumer="etl").load()
query = stream.writeStream.format("parquet").option("path", place + "/out")
query = query.option("checkpointLocation", place + "/checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
print("streamed", spark.read.parquet(place + "/out").count())
sums = spark.readStream.format("pgq").options(topic="sums", consumer="sums")
sums = sums.options(maxMessagesPerTrigger=40, payloadSchema="n bigint").load().selectExpr(
    "n % 3 as key", "n as total", "if(n % 50 = 0, value, null) as event"
)
sums = sums.writeStream.format("pgq").options(
    table="total", tableMode="append", topic="events", publish="event"
)
for checkpoint in ("1", "2"):  # the second one is new, and finds nothing to do again
    query = sums.option("checkpointLocation", place + "/sums" + checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
print("acked", spark.sql("select pgq_ack('work', 'nobody') as n").first().n)
spark.stop()
"""


def test_archives_lie_in_object_storage(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, storage: ObjectStorage
) -> None:
    storage.make_bucket("lake")
    fill(n=3000)
    fill("again", 0)
    db.execute("select pgq.ack(lease_id) from pgq.claim('work', n => 2900) limit 1")
    close_era(db)
    (done,) = pgq.spark.archive(spark, "s3a://lake/q", dsn=dsn, partitions=2)
    assert done.messages == 2900
    assert numbers(read_archive(spark, "s3a://lake/q")) == list(range(1, 2901))
    assert db.execute("select archived_at from pgq.era where number = 0").fetchone() != (None,)
    for count in (966, 0):
        assert count == pgq.spark.replay(
            spark, "s3a://lake/q", dsn=dsn, filter={"type": "a"}, to="again"
        )
    assert stats(db, "again") == (966, 0, 0)


def test_spark_connect_works(db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path) -> None:
    fill(n=600)
    fill("next", 0)
    fill("sums", 100)
    fill("events", 0)
    db.execute("create table public.total (key bigint not null, total bigint not null)")
    prepare()
    log = tmp_path / "log"
    with log.open("w") as out:
        subprocess.run(
            [sys.executable, "-c", CONNECT, dsn, str(tmp_path)],
            env=os.environ | {"PYTHONPATH": f"{TEST}:{ROOT / 'python/src'}"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
    output = log.read_text()
    assert "streamed 500" in output, output[-3000:]
    assert "acked 0" in output
    assert stats(db, "next") == (100, 0, 0)
    assert stats(db) == (0, 0, 0)
    found = db.execute("select key, sum(total)::int from total group by 1 order by 1").fetchall()
    assert found == [(key, sum(n for n in range(1, 101) if n % 3 == key)) for key in range(3)]
    assert (stats(db, "sums"), stats(db, "events")) == ((0, 0, 0), (2, 0, 0))
    committed = "select array_agg(size order by batch) from pgq.streams where wrote ? 'total'"
    assert db.execute(committed).fetchone() == ([40, 40, 20],)


def test_a_driver_killed_at_every_step_writes_every_message_to_its_files_once(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=600)
    steps = ["planned 1", "claimed 2", "read 3", "done 4", "claimed 6"]
    run_until_killed(dsn, tmp_path, "files", *steps)
    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(1, 601))
    assert stats(db) == (0, 0, 0)


def test_a_driver_killed_at_every_step_of_a_batch_recovers(
    db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=700)
    fill("next", 0)
    steps = ["planned 1", "claimed 2", "read 3", "staged 1", "published 4", "done 5", "claimed 7"]
    run_until_killed(dsn, tmp_path, "queue", *steps)
    found = db.execute("select payload ->> 'n' from pgq.message where topic = 'next'").fetchall()
    assert sorted(int(n) for (n,) in found) == list(range(1, 701))
    assert stats(db) == (0, 0, 0)
