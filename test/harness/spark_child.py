"""A driver that kills itself: python spark_child.py DSN PLACE SINK STEP.

It streams the queue "work" to files below PLACE ("files"), to the queue "next" ("queue"), or
commits sums to the table "total" and messages to that queue ("sums"). It is killed with its JVM at
a step of a batch: STEP is "claimed 2", for example, or "none". Several steps are separated by
commas. With "worker:", "executor:" or "server:" before it a step kills that process, once.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

import pgq.spark
import pgq.spark._table
from harness.spark import build
from pgq.spark._stage import Staged
from pgq.spark.options import STREAM_READ, Options
from pgq.spark.sink import PgqStreamWriter
from pgq.spark.source import PgqDataSource, PgqStreamReader


def die_at(step: str, batch: int) -> None:
    place = Path(os.environ["PGQ_KILL_PLACE"])
    for wanted in os.environ["PGQ_KILL"].split(","):
        kind, _, when = wanted.rpartition(":")
        if when != f"{step} {batch}":
            continue
        if kind == "":
            os.kill(int((place / "pid").read_text()), signal.SIGKILL)
            os._exit(1)
        mark = place / f"killed {wanted}"
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:  # by another task, or the one before
            continue
        if kind == "server":
            (place / "kill-server").touch()
            while (place / "kill-server").exists():  # until it was killed and started again
                time.sleep(0.05)
        else:
            os.kill(os.getpid() if kind == "worker" else executor(), signal.SIGKILL)


def executor() -> int:
    """The JVM that has started this Python worker."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(daemon.rpartition(")")[2].split()[1])


class KillingReader(PgqStreamReader):
    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        die_at("done", start["batch"])  # written, and not yet acknowledged
        end = super().latestOffset(start, limit)
        die_at("claimed", end["batch"])
        return end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Any:
        die_at("planned", end["batch"])
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for records in super().read(partition):
            yield records
            die_at("read", partition.value[0])


class KillingWriter(PgqStreamWriter):
    def write(self, iterator: Iterator[Any]) -> Staged:
        staged = super().write(iterator)
        die_at("staged", 1)
        return staged

    def commit(self, messages: list[Any], batchId: int) -> None:
        super().commit(messages, batchId)
        die_at("published", batchId + 1)


class KillingSource(PgqDataSource):
    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamReader(self, schema: StructType) -> KillingReader:
        options = Options(self.options, STREAM_READ, "a stream", self.dsn)
        return KillingReader(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KillingWriter:
        return KillingWriter(self.options, schema, overwrite, self.dsn)


def write_sums(rows: DataFrame, batch: int) -> None:
    """Sums per key into a table, and one message per thousand to another queue."""
    n = F.get_json_object("value", "$.n").cast("long")
    sums = rows.groupBy((n % 10).alias("key")).agg(F.sum(n).alias("total"))
    add = "total = t.total + excluded.total"
    thousands = rows.where(n % 1000 == 0).select("value")
    die_at("begun", batch)
    pgq.spark.commit(
        sums,
        batch,
        table="total",
        mode="upsert",
        update=add,
        publish=thousands,
        topic="next",
    )
    die_at("committed", batch)


def commit_staged(*arguments: Any, epoch: int, **more: Any) -> bool:
    die_at("staged", epoch)
    return pgq.spark._table.commit_staged(*arguments, epoch=epoch, **more)


def main(dsn: str, place: str, sink: str, step: str) -> None:
    pid_file = Path(place) / "pid"
    os.environ |= {"PGQ_KILL": step, "PGQ_KILL_PLACE": place}
    if sink == "sums":
        # Executors that can be killed without the driver.
        os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
        spark = build("local-cluster[2,1,700]", **{"spark.executor.memory": "600m"})
    else:
        spark = build("local[2]")
    gateway: Any = spark.sparkContext._gateway
    pid_file.write_text(str(gateway.proc.pid))
    source: type[DataSource] = KillingSource
    spark.dataSource.register(source)
    options = {"dsn": dsn, "topic": "work", "consumer": "etl", "timeout": "3 s"}
    rows = spark.readStream.format("killing").options(**options, numPartitions=2)
    size = os.environ.get("PGQ_KILL_BATCH", "100")
    df = rows.option("maxMessagesPerTrigger", size).load()
    if sink == "sums":
        pgq.spark.register(spark, dsn)
        pgq.spark.commit.__globals__["commit_staged"] = commit_staged
        writer = df.writeStream.foreachBatch(write_sums)
    elif sink == "files":
        writer = df.writeStream.format("parquet").option("path", f"{place}/out")
    else:
        writer = df.select("value").writeStream.format("killing")
        writer = writer.options(dsn=dsn, topic="next", writer="copy")
    writer = writer.option("checkpointLocation", f"{place}/checkpoint-{sink}")
    query = writer.trigger(availableNow=True).start()
    while not query.awaitTermination(1):
        if gateway.proc.poll() is not None:
            os._exit(1)
    print("finished", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
