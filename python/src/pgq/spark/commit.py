"""One commit: rows are written, messages published and the batch acknowledged together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import psycopg
from pyspark.sql import DataFrame, SparkSession

from pgq.spark._stage import MessageStaging, Staged, Staging, query_and_reader
from pgq.spark._table import Table, commit_staged
from pgq.spark.options import OptionError, dsn_for

__all__ = ["commit"]

STAGED = "token string, size long, query string, reader string"
ATTEMPTS = 3


def commit(
    batch_df: DataFrame,
    batch_id: int,
    *,
    table: str | Mapping[str, DataFrame] | None = None,
    mode: Literal["append", "upsert"] = "append",
    keys: Sequence[str] | None = None,
    update: str | None = None,
    publish: DataFrame | None = None,
    topic: str | None = None,
    writer: str | None = None,
    dsn: str | None = None,
) -> bool:
    """Commit a batch of a stream, for ``foreachBatch``; return False if it was committed before.

    Executors stage the rows and the messages. Then the driver, in one transaction, writes the rows
    into tables, publishes the messages and acknowledges the messages that the batch was read from.
    A batch that is repeated, by a restart, a new checkpoint or another query of the same consumer,
    is not committed again.

    :param batch_df: the DataFrame of ``foreachBatch``, or one derived from it.
    :param batch_id: the number of ``foreachBatch``.
    :param table: the table for the rows of `batch_df`, as its name is written in SQL; or a dict of
        tables and their DataFrames.
    :param mode: ``upsert`` replaces rows that have the same key.
    :param keys: the columns of the key; None for those of the primary key.
    :param update: the SET clause of an upsert for an existing row ``t``, such as
        ``"total = t.total + excluded.total"``; None replaces all columns outside of the key.
    :param publish: messages to publish, with the columns of ``df.write.format("pgq")``.
    :param topic: the topic of messages without one.
    :param writer: required if the stream reads no queue: a name that belongs to its checkpoint.
    :param dsn: the database of tables and queues; None for that of `register`, or ``PGQ_DSN``.

    >>> def write(batch_df, batch_id):
    ...     pgq.spark.commit(batch_df.select("id", "value"), batch_id, table="orders")
    >>> stream.writeStream.foreachBatch(write).start()
    """
    spark = batch_df.sparkSession
    if not isinstance(spark, SparkSession):
        raise OptionError(
            "commit() needs a classic session: with Spark Connect use writeStream.format('pgq')"
            " with the option 'table'"
        )
    address = dsn_for(spark, dsn)
    context: Any = spark.sparkContext
    query, reader = query_and_reader(context.getLocalProperty)
    if reader is None or not reader.endswith(f" {batch_id}"):
        raise OptionError(
            f"commit() is for the function of foreachBatch: batch {batch_id} is not running here"
        )
    targets = {table: batch_df} if isinstance(table, str) else dict(table or {})
    tables = [
        (Table(address, name, rows.schema, mode, keys, update), rows)
        for name, rows in targets.items()
    ]
    messages = None if publish is None else MessageStaging(address, publish.schema, topic)
    if not tables and messages is None:
        raise OptionError("there is nothing to commit: name a 'table', or messages to 'publish'")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return commit_staged(
                address,
                [(target, stage(rows, target)) for target, rows in tables],
                [] if publish is None or messages is None else stage(publish, messages),
                reader=reader,
                query=query,
                writer=writer,
                epoch=batch_id,
            )
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            # A crash of the server empties the staging table: stage again.
            if attempt == ATTEMPTS or " are staged" not in str(error):
                raise
    raise AssertionError("unreachable")


def stage(rows: DataFrame, how: Staging) -> list[Staged]:
    """Let the executors stage the rows; return the result of each successful task."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        done = how.stage(batches)
        yield pa.RecordBatch.from_pydict(
            {
                "token": [done.token],
                "size": pa.array([done.size], pa.int64()),
                "query": pa.array([done.query], pa.string()),
                "reader": pa.array([done.reader], pa.string()),
            }
        )

    return [Staged(**row.asDict()) for row in rows.mapInArrow(run, STAGED).collect()]
