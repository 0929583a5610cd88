"""``pgq.spark.register(spark)``: the format and the functions for Spark SQL."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import pandas as pd
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf, udtf
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import BooleanType, LongType

import pgq
from pgq.errors import LeaseLost
from pgq.matching import Message, World, compile_filter, loads
from pgq.spark._rows import COLUMNS, ask, column_names, connect, schema_of
from pgq.spark.options import LEASE, N, OptionError, Options, parse_span, registered
from pgq.spark.source import PgqDataSource, PgqDeadLetterSource, count_cores

__all__ = ["matches", "register"]

# The error condition of changing the session of a declarative pipeline.
PIPELINE = "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"


def register(spark: SparkSession, dsn: str | None = None, *, functions: bool = True) -> None:
    """Register the format ``pgq`` and the functions ``pgq_...`` in a session.

    The code is sent to the executors by value: they need psycopg, pyarrow and the ADBC driver, but
    not this package. A declarative pipeline allows no functions, and finds the format ``pgq`` by
    itself if this package is installed. There this call does nothing, unless it has a dsn.

    :param spark: the session.
    :param dsn: the default database of readers, writers and functions; None for the environment
        variable ``PGQ_DSN`` of the executors.
    :param functions: False registers only the formats.

    >>> pgq.spark.register(spark, dsn="host=db dbname=shop")
    >>> spark.read.format("pgq").option("topic", "orders").load()
    """
    cloudpickle.register_pickle_by_value(pgq)  # type: ignore[no-untyped-call]
    registered.remember(spark, dsn or "")
    use_this_python(spark)
    if functions:
        try:
            _register_functions(spark, dsn or "")
        except PySparkException as error:
            if not (error.getCondition() or "").startswith(PIPELINE):
                raise
            # A declarative pipeline finds the format by itself. A registered format also works,
            # but makes the client of PySpark 4.3 fail at the end of the run.
            if dsn is None and find_spec("pyspark_pgq") is not None:
                return
    known = {"dsn": dsn or "", "cores": count_cores(spark), "pushes": pushes(spark)}
    for source in (PgqDataSource, PgqDeadLetterSource):
        spark.dataSource.register(type(source.__name__, (source,), known))


def pushes(spark: SparkSession) -> bool:
    """Whether this session allows filter pushdown; if not, Spark refuses a reader that has it."""
    return spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") == "true"


def _register_functions(spark: SparkSession, dsn: str) -> None:
    spark.udtf.register("pgq_claim", _claim(dsn))
    spark.udf.register("pgq_ack", _ender(dsn, "select pgq.ack(%s, %s::bigint[])"))
    nack = "select pgq.nack(%s, %s::bigint[], null, %s)"
    spark.udf.register("pgq_nack", _ender(dsn, nack))
    spark.udf.register("pgq_matches", matches)
    spark.udf.register("pgq_publish", _publish(dsn))


def use_this_python(spark: SparkSession) -> None:
    """Let a local Spark run Python code with this Python, unless another one is configured.

    By default Spark takes the first python3 of the PATH, which does not have the packages of a
    virtual environment that is not activated.
    """
    if os.environ.get("PYSPARK_PYTHON") or not isinstance(spark, SparkSession):
        return
    context: Any = spark.sparkContext
    named = context.getConf().get("spark.pyspark.python", None)
    if context.master.startswith("local") and not context.master.startswith("local-cluster"):
        context.pythonExec = named or sys.executable


def _address(dsn: str) -> str:
    return Options({}, (), "a function", dsn).dsn


def _claim(dsn: str) -> Any:
    names = column_names()

    class Claimed:
        """pgq_claim(topic, filter, n, key[, lease]): the messages of a named claim."""

        def eval(
            self,
            topic: str,
            filter: str | None = None,
            n: int | None = None,
            key: str | None = None,
            lease: str | None = None,
        ) -> Iterator[tuple[Any, ...]]:
            if not key:
                raise OptionError(
                    "pgq_claim needs a key: Spark may run it more than once, and only a named claim"
                    " is the same every time"
                )
            columns = ", ".join(
                COLUMNS[name][2] + ("::text" if name in ("value", "headers") else "")
                for name in names
            )
            query: Any = f"select {columns} from pgq.claim(%s, %s::jsonb, %s, %s, %s)"
            span = LEASE if lease is None else parse_span("lease", lease)
            with connect(_address(dsn), "pgq_claim") as conn:
                yield from ask(conn, query, topic, filter, N if n is None else n, span, key)

    return udtf(Claimed, returnType=schema_of(names))


def _ender(dsn: str, query: Any) -> Any:
    def end(
        topic: str, key: str, ids: list[int] | None = None, error: str | None = None
    ) -> int | None:
        """End a named claim, or some of its messages; return 0 if it has ended already."""
        if topic is None or key is None:
            return None
        more = [error] if query.count("%s") == 3 else []
        with connect(_address(dsn), "pgq_ack") as conn, conn.transaction():
            try:
                ((lease,),) = ask(conn, "select pgq.named_lease(%s, %s)", topic, key)
            except LeaseLost:
                return 0
            ((count,),) = ask(conn, query, lease, ids, *more)
        return int(count)

    return udf(end, LongType(), useArrow=False).asNondeterministic()


@pandas_udf(BooleanType())  # type: ignore[call-overload, untyped-decorator, unused-ignore]
def matches(filter: pd.Series, headers: pd.Series, payload: pd.Series) -> pd.Series:
    """pgq_matches(filter, headers, payload): the result of pgq.matches, without the server."""
    tests: dict[str | None, Any] = {}
    now = Decimal(datetime.now(UTC).timestamp())

    def test(filter: str | None, headers: str | None, payload: str | None) -> bool:
        if filter not in tests:
            tests[filter] = compile_filter(None if filter is None else loads(filter))
        message = Message(
            loads(headers) if headers else {}, loads(payload) if payload is not None else None
        )
        return bool(tests[filter](World(message, now)))

    return pd.Series(
        [test(*row) for row in zip(filter, headers, payload, strict=True)], dtype="bool"
    )


def _publish(dsn: str) -> Any:
    @pandas_udf(LongType())  # type: ignore[call-overload, untyped-decorator, unused-ignore]
    def publish(topic: pd.Series, value: pd.Series, *more: pd.Series) -> pd.Series:
        """pgq_publish(topic, value[, headers[, dedup_key]]): the ids of the messages.

        A task that is retried publishes its messages again, unless they have dedup keys.
        """
        none = pd.Series([None] * len(topic), dtype=object)
        headers, dedup_key = (*more, none, none)[:2]
        ids = pd.Series([None] * len(topic), dtype="Int64")
        with connect(_address(dsn), "pgq_publish") as conn, conn.transaction():
            for name, rows in topic.groupby(topic).groups.items():
                found = ask(
                    conn,
                    "select pgq.publish_batch(%s, %s::jsonb[], %s::jsonb[], dedup_keys =>"
                    " %s::text[])",
                    name,
                    value[rows].tolist(),
                    [text if text is not None else "{}" for text in headers[rows]],
                    dedup_key[rows].tolist(),
                )
                ids[rows] = [id for (id,) in found]
        return ids

    return publish
