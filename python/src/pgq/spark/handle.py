"""A claim that the driver holds: its messages as a DataFrame, and what becomes of them."""

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
    """Claim up to n messages of a queue, once, and return what to do with them.

    The lease is renewed while this process lives. With a key the claim has a name: after a crash
    the same key returns the same messages until they are acknowledged.

    :param dsn: where the queues are; that of `register` if None, else ``PGQ_DSN``.
    :param group_runs: of an ordering group claim what waits behind its head, too. If one of them is
        refused, those behind it are given back with it.
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
    """Messages in the hands of this driver.

    As a context manager it acknowledges what is left at the end, or gives it back for another
    attempt if the block fails.
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
            self._server.connection()  # at once, or not at all
            self._say_if_known()
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
        reader = spark.read.format("pgq").options(dsn=dsn, mode="claim", leaseId=self.lease_id)
        self.df = reader.options(n=self.size, numPartitions=partitions).load()
        threading.Thread(target=self._keep, daemon=True).start()

    def _say_if_known(self) -> None:
        """Warn of a claim of that name: it keeps the messages that it was made with."""
        try:
            self._server.ask("select pgq.named_lease(%s, %s)", self.topic, self.key)
        except LeaseLost:
            return
        log.warning(
            "queue %r has a claim named %r: it is gone on with, whatever filter and n are now",
            *(self.topic, self.key),
        )

    def ack(self, df: DataFrame | None = None) -> int:
        """Acknowledge the messages whose ids the DataFrame has, or all that are left."""
        return self._finish("select pgq.ack(%s, %s::bigint[])", df)

    def nack(
        self,
        df: DataFrame | None = None,
        *,
        error: str | None = None,
        delay: timedelta | None = None,
    ) -> int:
        """Give messages back for another attempt, or to the dead letters after the last one."""
        return self._finish("select pgq.nack(%s, %s::bigint[], %s, %s)", df, delay, error)

    def release(self, df: DataFrame | None = None) -> int:
        """Give messages back as if they had not been claimed."""
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
            except Exception as second:  # the error of the block is the one to tell
                log.warning("claim %r is not given back: %s", self.key, second)
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
        """Count what the lease has left: what stands behind refused ones of a group has left it."""
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
                return  # whoever ends it is told
            except Exception:  # the server may be back before the lease ends
                continue


def ids_of(df: DataFrame) -> list[int]:
    """Return the ids of a DataFrame's messages."""
    if "id" not in df.columns:
        raise ValueError("a DataFrame of messages to end needs the column 'id'")
    ids: list[int] = df.select("id").distinct().toArrow()["id"].to_pylist()
    return ids
