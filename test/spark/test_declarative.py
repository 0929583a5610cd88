"""A declarative pipeline: its source and its sink are queues, found without being registered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg

from harness.paths import ROOT
from harness.spark import JAVA_OPTIONS, Fill, prepare, stats

SPEC = """
name: copy
storage: file://{place}/storage
libraries:
  - glob:
      include: transformations/**
"""
COPY = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

import pgq.spark

spark = SparkSession.active()
pgq.spark.register(spark)  # not needed here, and no harm
dp.create_sink(name="next", format="pgq", options={"topic": "next", "writer": "copy"})


@dp.append_flow(target="next", name="copied")
def copied():
    work = spark.readStream.format("pgq").options(topic="work", consumer="copy").load()
    return work.select("value", "headers")
"""


def test_a_declarative_pipeline_reads_a_queue_and_writes_to_another(
    db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    fill(n=20)
    fill("next", 0)
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "copy.py").write_text(COPY)
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(place=tmp_path))
    prepare()
    # Beside the packages of Spark the pipeline only needs this one.
    done = subprocess.run(
        [Path(sys.executable).with_name("spark-pipelines"), "run"],
        cwd=tmp_path,
        env=os.environ
        | {
            "PGQ_DSN": dsn,
            "PYTHONPATH": str(ROOT / "python" / "src"),
            "JAVA_TOOL_OPTIONS": f"{JAVA_OPTIONS} -Dspark.ui.enabled=false",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,  # a busy machine takes minutes to start a driver
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert (stats(db), stats(db, "next")) == ((0, 0, 0), (20, 0, 0))
