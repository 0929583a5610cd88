"""A driver that kills itself: python spark_child.py DSN PLACE SINK STEP.

It streams the queue "work" to files below PLACE, or to the queue "next", and is killed with its
JVM at a step of a batch: STEP is "claimed 2", for example, or "none".
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

from harness.spark import build
from pgq.spark.options import STREAM_READ, Options
from pgq.spark.sink import PgqStreamWriter, Staged
from pgq.spark.source import PgqDataSource, PgqStreamReader


def die_at(step: str, batch: int) -> None:
    if os.environ["PGQ_KILL"] == f"{step} {batch}":
        os.kill(int(Path(os.environ["PGQ_KILL_PID"]).read_text()), signal.SIGKILL)
        os._exit(1)


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
        return KillingReader(options, self.schema(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KillingWriter:
        return KillingWriter(self.options, schema, overwrite, self.dsn)


def main(dsn: str, place: str, sink: str, step: str) -> None:
    pid_file = Path(place) / "pid"
    os.environ |= {"PGQ_KILL": step, "PGQ_KILL_PID": str(pid_file)}
    spark = build("local[2]")
    gateway: Any = spark.sparkContext._gateway
    pid_file.write_text(str(gateway.proc.pid))
    source: type[DataSource] = KillingSource
    spark.dataSource.register(source)
    options = {"dsn": dsn, "topic": "work", "consumer": "etl", "timeout": "3 s"}
    rows = spark.readStream.format("killing").options(**options, numPartitions=2)
    df = rows.option("maxMessagesPerTrigger", 100).load()
    if sink == "files":
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
