"""pgq for Spark: a queue as a source, a sink and a pipeline.

>>> import pgq.spark
>>> pgq.spark.register(spark, dsn="host=db dbname=shop")
>>> spark.read.format("pgq").option("topic", "orders").load()

Spark may run a plan several times, so a claim inside a plan is always a named claim: see
python/SPARK.md.
"""

from __future__ import annotations

try:
    import pyspark as _pyspark
except ImportError as _error:
    raise ImportError("pgq.spark needs PySpark: pip install 'pgq-client[spark]'") from _error

from pgq.spark.commit import commit
from pgq.spark.functions import register
from pgq.spark.handle import Claim, claim
from pgq.spark.pipelines import Archived, Drained, archive, dlq_report, drain, replay
from pgq.spark.source import PgqDataSource

__all__ = [
    "Archived",
    "Claim",
    "Drained",
    "PgqDataSource",
    "archive",
    "claim",
    "commit",
    "dlq_report",
    "drain",
    "register",
    "replay",
]

del _pyspark
