"""A driver killed with -9 in the middle of a batch, and started again from its checkpoint.

More kills, of drivers, executors, workers and servers, are in test/spark_cluster.
"""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
from pyspark.sql import DataFrame, SparkSession

from harness.spark import Fill, run_until_killed, stats


def numbers(df: DataFrame) -> list[int]:
    return sorted(json.loads(row["value"])["n"] for row in df.select("value").collect())


def test_a_killed_driver_writes_every_message_to_its_files_once(
    spark: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=600)
    run_until_killed(dsn, tmp_path, "files", "read 3")
    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(1, 601))
    assert stats(db) == (0, 0, 0)
