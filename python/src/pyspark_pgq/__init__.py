"""Spark looks for packages named ``pyspark_...`` and finds the format ``pgq`` here by itself.

So ``spark-sql`` and declarative pipelines, which cannot call `pgq.spark.register`, know it too. The
queues are where the option ``dsn`` says, or ``PGQ_DSN``.
"""

from __future__ import annotations

import contextlib

# Spark imports this for every session: one that lacks a package of the extra "spark" goes on.
with contextlib.suppress(ImportError):
    from pgq.spark.source import PgqDataSource as DefaultSource

    __all__ = ["DefaultSource"]
