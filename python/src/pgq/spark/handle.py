"""A claim that the driver holds: its messages as a DataFrame, and ack, nack and release."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from pgq.errors import LeaseLost
from pgq.filters import Filter, document
from pgq.spark._rows import Server, ask, column_names, connect, schema_of
from pgq.spark.options import LEASE, N, dsn_for
from pgq.spark.source import as_frame

__all__ = ["Claim", "claim", "ids_of"]

log = logging.getLogger("pgq.spark")


def claim(
    spark: SparkSession,
    topic: str,
    filter: Filter = None,
    n: int = N,
    *,
    dsn: str | None = None,
    key: str | None = None,
    lease: timedelta = LEASE,
    partitions: int = 0,
    group_runs: bool = True,
) -> Claim:
    """Claim up to n messages of a queue, and return them as a `Claim`.

    The lease is extended while this process lives.

    :param topic: the name of the queue.
    :param filter: the messages to claim; None for all.
    :param n: the maximum number of messages.
    :param dsn: the database of the queues; None for that of `register`, or ``PGQ_DSN``.
    :param key: the name of the claim. After a crash a claim with the same key returns the same
        messages, until they have ended.
    :param lease: the lease duration.
    :param partitions: how many tasks read in parallel; 0 to choose by the number of messages.
    :param group_runs: also claim the messages that wait behind the head of an ordering group. If
        one of them is refused, the messages after it are released.

    >>> with pgq.spark.claim(spark, "orders", n=10_000) as batch:
    ...     batch.df.write.parquet("/data/orders")
    """
    wanted = document(filter)
    return Claim(
        spark,
        dsn_for(spark, dsn),
        topic,
        None if wanted is None else json.dumps(wanted),
        n,
        key or f"spark {uuid.uuid4()}",
        lease,
        partitions,
        group_runs,
    )


class Claim:
    """Claimed messages: the DataFrame `df`, and the methods that end them.

    As a context manager it acknowledges the remaining messages at the end, or refuses them
    (nack) if the block raises.
    """

    def __init__(
        self,
        spark: SparkSession,
        dsn: str,
        topic: str,
        filter: str | None,
        n: int,
        key: str,
        lease: timedelta,
        partitions: int,
        group_runs: bool,
    ) -> None:
        self.topic = topic
        self.key = key
        self._dsn = dsn
        self._lease = lease
        self._server = Server(dsn, "pgq spark claim")
        self._over = threading.Event()
        try:
            self._server.connection()  # raises without retries
            self._warn_if_exists()
            found = self._server.ask(
                "select lease_id, size from pgq.hold(%s, %s, %s::jsonb, %s, %s, %s)",
                topic,
                key,
                filter,
                n,
                lease,
                group_runs,
            )
        except BaseException:
            self._server.close()
            raise
        self.lease_id: int | None = found[0][0] if found else None
        self.size: int = found[0][1] if found else 0
        self.left = self.size
        if self.lease_id is None:
            self.df: DataFrame = spark.createDataFrame([], schema_of(column_names()))
            self._end()
            return
        options = {"dsn": dsn, "mode": "claim", "leaseId": self.lease_id, "n": self.size}
        self.df = as_frame(spark, options | {"numPartitions": partitions})
        threading.Thread(target=self._keep, daemon=True).start()

    def _warn_if_exists(self) -> None:
        """Warn if a claim of this name exists: it keeps its messages, whatever filter and n."""
        try:
            self._server.ask("select pgq.named_lease(%s, %s)", self.topic, self.key)
        except LeaseLost:
            return
        log.warning(
            "queue %r has a claim named %r, which continues: filter and n are ignored",
            self.topic,
            self.key,
        )

    def ack(self, df: DataFrame | None = None) -> int:
        """Acknowledge the messages whose ids are in the DataFrame, or all remaining ones."""
        return self._finish("select pgq.ack(%s, %s::bigint[])", df)

    def nack(
        self,
        df: DataFrame | None = None,
        *,
        error: str | None = None,
        delay: timedelta | None = None,
    ) -> int:
        """Refuse messages: they are retried, or become dead letters after the last attempt.

        :param df: a DataFrame with the ids; None for all remaining messages.
        :param error: the reason.
        :param delay: the delay before the retry; None for the queue's backoff.
        """
        return self._finish("select pgq.nack(%s, %s::bigint[], %s, %s)", df, delay, error)

    def release(self, df: DataFrame | None = None) -> int:
        """Release messages without counting the attempt."""
        return self._finish("select pgq.release(%s, %s::bigint[])", df)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.left == 0:
            self._end()
        elif error is None:
            self.ack()
        else:
            try:
                self.nack(error=f"{type(error).__name__}: {error}"[:1000])
            except Exception as second:  # raise the error of the block, not this one
                log.warning("claim %r could not be refused: %s", self.key, second)
                self._end()

    def _finish(self, query: Any, df: DataFrame | None, *more: Any) -> int:
        if self.left == 0:
            return 0
        ids = None if df is None else ids_of(df)
        if ids == []:
            return 0
        try:
            ((count,),) = self._server.ask(query, self.lease_id, ids, *more)
        except LeaseLost:
            self._end()
            raise
        self.left = 0 if ids is None else self._count()
        if self.left == 0:
            self._end()
        return int(count)

    def _count(self) -> int:
        """Count the messages of the lease: those behind refused ones of a group have left it."""
        try:
            ((size,),) = self._server.ask("select size from pgq.lease_parts(%s)", self.lease_id)
        except LeaseLost:
            return 0
        return int(size)

    def _end(self) -> None:
        self.left = 0
        self._over.set()
        self._server.close()

    def _keep(self) -> None:
        while not self._over.wait(self._lease.total_seconds() / 3):
            try:
                with connect(self._dsn, "pgq spark claim") as conn:
                    ask(conn, "select pgq.extend(%s, %s)", self.lease_id, self._lease)
            except LeaseLost:
                return  # ack, nack and release raise the error
            except Exception:  # try again: the server may answer before the lease ends
                continue


def ids_of(df: DataFrame) -> list[int]:
    """Return the ids of a DataFrame's messages."""
    if "id" not in df.columns:
        raise ValueError("a DataFrame of messages to end needs the column 'id'")
    ids: list[int] = df.select("id").distinct().toArrow()["id"].to_pylist()
    return ids
