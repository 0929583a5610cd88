"""Tables of Delta and Iceberg as targets of `drain`, written by deltalake and pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

import pgq.spark
from harness import lake
from harness.spark import Fill, stats


class Delta:
    """One commit of a table is one version of an application."""

    def __init__(self, place: Path) -> None:
        self.path = str(place / "delta")

    def write(self, rows: DataFrame, run: str, batch: int) -> None:
        import deltalake as delta

        is_there = delta.DeltaTable.is_deltatable(self.path)
        if is_there and (delta.DeltaTable(self.path).transaction_version(run) or 0) >= batch:
            return
        once = delta.CommitProperties(app_transactions=[delta.Transaction(run, batch)])
        data = rows.select("id", "value").toArrow()
        delta.write_deltalake(self.path, data, mode="append", commit_properties=once)

    def read(self) -> Any:
        import deltalake as delta

        return delta.DeltaTable(self.path).to_pyarrow_table()


class Iceberg:
    """One snapshot of a table has the run and the number of the batch among its properties."""

    def __init__(self, place: Path) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        (place / "iceberg").mkdir()
        options = {"uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/iceberg"}
        self.catalog = SqlCatalog("test", **options)
        self.catalog.create_namespace("lake")

    def write(self, rows: DataFrame, run: str, batch: int) -> None:
        data = rows.select("id", "value").toArrow()
        table = self.catalog.create_table_if_not_exists("lake.work", data.schema)
        written = [snapshot.summary for snapshot in table.metadata.snapshots]
        if any((s["run"], s["batch"]) == (run, str(batch)) for s in written if s is not None):
            return
        table.append(data, snapshot_properties={"run": run, "batch": str(batch)})

    def read(self) -> Any:
        return self.catalog.load_table("lake.work").scan().to_arrow()


@pytest.mark.parametrize("table", [Delta, Iceberg])
def test_a_table_gets_every_message_once_although_the_driver_forgets_a_commit(
    table: Callable[[Path], Any],
    spark: SparkSession,
    db: psycopg.Connection,
    dsn: str,
    fill: Fill,
    tmp_path: Path,
) -> None:
    lake.use()
    fill(n=3000)
    target = table(tmp_path)
    fails = [2, 3]

    def write(rows: DataFrame, run: str, batch: int) -> None:
        target.write(rows, run, batch)
        if batch in fails:
            fails.remove(batch)
            raise ValueError("injected")

    def drain() -> pgq.spark.Drained:
        return pgq.spark.drain(spark, "work", "lake.work", dsn=dsn, write=write, n=1000)

    for left in ((1000, 1000, 0), (0, 1000, 0)):
        with pytest.raises(ValueError, match="injected"):
            drain()
        assert stats(db) == left
    done = drain()
    assert (done.batches, done.written, done.refused) == (1, 1000, 0)
    found = target.read()["value"].to_pylist()
    assert sorted(json.loads(text)["n"] for text in found) == list(range(1, 3001))
    # A queue that was made anew begins with batch 1 again, and is another run.
    db.execute("select pgq.drop_queue('work', force => true)")
    fill(n=10, first=3001)
    drain()
    assert target.read().num_rows == 3010
    assert stats(db) == (0, 0, 0)
