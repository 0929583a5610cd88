"""Staging: tasks write rows to a staging table, with a token for each attempt."""

from __future__ import annotations

import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import psycopg
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import DataType, IntegerType, StringType, StructType, TimestampType

from pgq.spark._rows import Server, ServerError, ask, connect
from pgq.spark.options import OptionError, check_columns

log = logging.getLogger("pgq.spark")

# The columns that can be written, with their types in Spark.
WRITABLE: dict[str, DataType] = {
    "topic": StringType(),
    "value": StringType(),
    "headers": StringType(),
    "key": StringType(),
    "priority": IntegerType(),
    "sender": StringType(),
    "recipient": StringType(),
    "reply_to": StringType(),
    "correlation_id": StringType(),
    "dedup_key": StringType(),
    "deliver_at": TimestampType(),
    "expires_at": TimestampType(),
}
TARGET = {"value": "payload", "key": "group_key"}
# The most bytes that a task keeps, to send them again if the connection breaks.
KEPT = 64 * 1024 * 1024
ATTEMPTS = 5


@dataclass
class Staged(WriterCommitMessage):
    """The rows that one attempt of a task has staged."""

    token: str
    size: int
    query: str | None = None  # the streaming query that the task belongs to
    reader: str | None = None  # the execution of its batch
    messages: Staged | None = None  # in addition to the rows of a table


def query_and_reader(
    get: Callable[[str], str | None] | None = None,
) -> tuple[str | None, str | None]:
    """Return the running streaming query, and a name for this execution of its batch.

    :param get: a function that returns a local property of a job; None for the running task's.
    """
    if get is None:
        context = TaskContext.get()
        if context is None:
            return None, None
        get = context.getLocalProperty
    query, batch = get("sql.streaming.queryId"), get("streaming.sql.batchId")
    if query is None or batch is None:
        return query, None
    return query, f"{query} {get('spark.jobGroup.id')} {batch}"


class Staging(ABC):
    """Stages the rows of a task; sends them again if the connection breaks."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    @abstractmethod
    def copy(
        self, conn: psycopg.Connection[Any], token: str, batches: Iterator[tuple[Any, int]]
    ) -> int:
        """Copy the rows into the staging table; return how many."""

    def stage(self, batches: Iterator[Any]) -> Staged:
        """Copy the rows into the staging table, in one transaction, under a new token.

        If the connection breaks, the rows are sent again, unless they are more than `KEPT` bytes.
        """
        size = 0
        sent = 0
        kept: list[tuple[Any, int]] = []

        def rows() -> Iterator[tuple[Any, int]]:
            nonlocal size, sent
            for batch in batches:
                if batch.num_rows:
                    item = (batch, size)
                    size += batch.num_rows
                    sent += batch.nbytes
                    if sent <= KEPT:
                        kept.append(item)
                    else:
                        kept.clear()
                    yield item

        fresh = rows()
        for attempt in range(1, ATTEMPTS + 1):
            token = str(uuid.uuid4())
            server = Server(self.dsn, "pgq spark write")
            try:
                server.ask("select 1")  # waits for a server that is being restarted
                staged = self.copy(server.connection(), token, chain(list(kept), fresh))
                query, reader = query_and_reader()
                return Staged(token, staged, query, reader)
            except psycopg.OperationalError:
                if sent > KEPT or attempt == ATTEMPTS or not server.is_broken():
                    raise
            finally:
                server.close()
        raise AssertionError("unreachable")

    def discard(self, messages: Sequence[Any]) -> None:
        """Delete staged rows."""
        tokens = [message.token for message in messages if message is not None]
        try:
            with connect(self.dsn, "pgq spark abort") as conn:
                ask(conn, "select pgq.discard_staged(%s::uuid[])", tokens)
        except (ServerError, psycopg.OperationalError) as error:
            # Do not hide an earlier error; maintenance deletes orphans after a day.
            log.warning("messages stay staged until they are swept: %s", error)


class MessageStaging(Staging):
    """Stages messages that will be published."""

    def __init__(
        self, dsn: str, schema: StructType, topic: str | None, *, patient: bool = False
    ) -> None:
        super().__init__(dsn)
        self.topic = topic
        self.columns = [name for name, _ in check_columns(schema, WRITABLE, topic)]
        server = Server(dsn, "pgq spark plan")
        try:
            if not patient:
                server.connection()  # raises at once, without retries
            fixed = None if "topic" in self.columns else topic
            server.ask("select pgq.writer_epoch('', %s)", fixed)
        finally:
            server.close()

    def copy(
        self, conn: psycopg.Connection[Any], token: str, batches: Iterator[tuple[Any, int]]
    ) -> int:
        size = 0
        fixed = ["token", "position", *([] if "topic" in self.columns else ["topic"])]
        target = ", ".join([*fixed, *(TARGET.get(name, name) for name in self.columns)])
        query = f"copy pgq.staged ({target}) from stdin (format csv)"
        try:
            with (
                conn.transaction(),
                conn.cursor() as cursor,
                cursor.copy(query.encode()) as copy,
            ):
                for batch, position in batches:
                    copy.write(self.as_csv(batch, token, position))
                    size += batch.num_rows
            return size
        except psycopg.errors.DataError as error:
            # The context has the line and the column of the invalid value.
            where = error.diag.context or ""
            for name, column in (("value", "payload"), ("headers", "headers")):
                found = where.partition(f"column {column}: ")[2].partition("\n")[0]
                if found:
                    raise OptionError(
                        f"the column {name!r} is JSON text, and {found[:200]} is not"
                        f" ({error.diag.message_primary}): use to_json({name})"
                    ) from None
            raise OptionError(f"{error.diag.message_primary} ({where})") from None

    def as_csv(self, batch: Any, token: str, position: int) -> bytes:
        """Return the rows as CSV for COPY: text is quoted, so that null differs from ''."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.csv

        rows = batch.num_rows
        arrays = [pa.repeat(token, rows), pa.array(range(position, position + rows), pa.int32())]
        if "topic" not in self.columns:
            arrays.append(pa.repeat(self.topic, rows))
        for name in self.columns:
            column = batch.column(batch.schema.get_field_index(name))
            if name == "value" and column.null_count:
                raise OptionError(
                    "the column 'value' is null in some rows, which cannot be published:"
                    " leave them out, or write coalesce(value, 'null') for the JSON null"
                )
            if name == "topic" and self.topic:
                column = pc.coalesce(column, pa.scalar(self.topic))
            elif name == "headers":
                column = pc.coalesce(column, pa.scalar("{}"))
            elif name == "priority":
                column = pc.coalesce(column, pa.scalar(0, pa.int32()))
            elif pa.types.is_timestamp(column.type):
                column = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
            arrays.append(column)
        table = pa.table(arrays, names=[str(number) for number in range(len(arrays))])
        sink = pa.BufferOutputStream()
        layout = pyarrow.csv.WriteOptions(include_header=False, batch_size=rows)
        pyarrow.csv.write_csv(table, sink, layout)
        data: bytes = sink.getvalue().to_pybytes()
        return data
