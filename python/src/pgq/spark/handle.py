"""A claim that the driver holds: its messages as a DataFrame, and what becomes of them."""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from pgq.errors import LeaseLost
from pgq.filters import Filter, document
from pgq.spark._rows import ask, column_names, connect, schema_of
from pgq.spark.options import Options

__all__ = ["Claim", "claim", "ids_of"]


def claim(
    spark: SparkSession,
    topic: str,
    filter: Filter = None,
    n: int = 1000,
    *,
    dsn: str | None = None,
    key: str | None = None,
    lease: timedelta = timedelta(minutes=5),
    partitions: int = 0,
) -> Claim:
    """Claim up to n messages of a queue, once, and return what to do with them.

    The lease is renewed while this process lives. With a key the claim has a name: after a crash
    the same key returns the same messages until they are acknowledged.
    """
    wanted = document(filter)
    return Claim(
        spark,
        Options({}, (), "a claim", dsn or "").dsn,
        topic,
        None if wanted is None else json.dumps(wanted),
        n,
        key or f"spark {uuid.uuid4()}",
        lease,
        partitions,
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
    ) -> None:
        self.topic = topic
        self.key = key
        self._dsn = dsn
        self._lease = lease
        self._conn = connect(dsn, "pgq spark claim")
        self._lock = threading.Lock()
        self._over = threading.Event()
        try:
            found = self._ask(
                "select lease_id, size from pgq.hold(%s, %s, %s::jsonb, %s, %s)",
                *(topic, key, filter, n, lease),
            )
        except BaseException:
            self._conn.close()
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
            with suppress(LeaseLost):  # the error of the block is the one to tell
                self.nack(error=f"{type(error).__name__}: {error}"[:1000])

    def _finish(self, query: Any, df: DataFrame | None, *more: Any) -> int:
        if self.left == 0:
            return 0
        ids = None if df is None else ids_of(df)
        if ids == []:
            return 0
        try:
            ((count,),) = self._ask(query, self.lease_id, ids, *more)
        except LeaseLost:
            self._end()
            raise
        self.left -= count
        if self.left == 0 or ids is None:
            self._end()
        return int(count)

    def _end(self) -> None:
        self.left = 0
        self._over.set()
        self._conn.close()

    def _ask(self, query: Any, *values: Any) -> list[Any]:
        with self._lock:
            return ask(self._conn, query, *values)

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
