"""Staging: tasks write rows to a staging table, with a token for each attempt."""

from __future__ import annotations

import json
import logging
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import DataType, IntegerType, StringType, StructType, TimestampType

from pgq.spark._rows import Server, ServerError, ask, close, connect, keep, start_reading
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
# The maximum number of bytes that a task keeps, to send them again if the connection breaks.
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
    def fields(self) -> dict[str, Any]:
        """Return the columns of the staging table that are written, with their Arrow types."""

    @abstractmethod
    def arrays(self, batch: Any) -> list[Any]:
        """Return the values of these columns for a batch of rows."""

    @abstractmethod
    def explain(self, error: str, column: str, value: str) -> OptionError:
        """Return the exception for a value that PostgreSQL refuses."""

    def copy(self, conn: Any, token: uuid.UUID, batches: Iterator[tuple[Any, int]]) -> int:
        """Copy the rows into the staging table, in binary; return how many."""
        import pyarrow as pa

        schema = pa.schema(
            {"token": pa.binary(), "position": pa.int32(), **self.fields()}  # 16 bytes: a uuid
        )
        failed: list[Exception] = []

        def rows() -> Iterator[Any]:
            try:
                for batch, first in batches:
                    size = batch.num_rows
                    names = pa.repeat(pa.scalar(token.bytes, pa.binary()), size)
                    positions = pa.array(range(first, first + size), pa.int32())
                    arrays = [names, positions, *self.arrays(batch)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            except Exception as error:  # the driver would raise an error of its own
                failed.append(error)
                raise

        try:
            with conn.cursor() as cursor:
                reader = pa.RecordBatchReader.from_batches(schema, rows())
                size = cursor.adbc_ingest("staged", reader, "append", db_schema_name="pgq")
            conn.commit()
        except Exception:
            if failed:
                raise failed[0] from None
            raise
        return int(size)

    def stage(self, batches: Iterator[Any]) -> Staged:
        """Copy the rows into the staging table, in one transaction, under a new token.

        If the connection breaks, the rows are sent again, unless they are more than `KEPT` bytes.
        """
        import adbc_driver_postgresql.dbapi as adbc

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
        name = {"application_name": "pgq spark write", "client_encoding": "utf8"}
        address = make_conninfo(self.dsn, **name)
        for attempt in range(1, ATTEMPTS + 1):
            token = uuid.uuid4()
            conn, _ = start_reading(address, "select 1")  # waits for a server that is restarted
            try:
                staged = self.copy(conn, token, chain(list(kept), fresh))
            except adbc.Error as error:
                close(conn)
                state = error.sqlstate or "08"
                if state.startswith("22"):
                    raise self.refused(str(error), kept) from None
                # 08: the connection is broken; 57P: the server is shut down.
                if sent > KEPT or attempt == ATTEMPTS or not state.startswith(("08", "57P")):
                    raise
            except BaseException:
                close(conn)
                raise
            else:
                keep(address, conn)
                query, reader = query_and_reader()
                return Staged(str(token), staged, query, reader)
        raise AssertionError("unreachable")

    def refused(self, error: str, kept: list[tuple[Any, int]]) -> OptionError:
        """Return the exception for rows that PostgreSQL refuses; it has the value, if kept."""
        text = error.partition("ERROR:  ")[2]
        found = re.search(r"COPY staged, line (\d+), column (\w+)", text)
        if found is None:
            return OptionError(text.partition("\n")[0])
        line, column = int(found[1]) - 1, found[2]
        value = text.partition("JSON data, line 1: ")[2].partition("\n")[0]
        for batch, first in kept:
            if first <= line < first + batch.num_rows:
                row = str(self.arrays(batch)[list(self.fields()).index(column)][line - first])
                value = row.removeprefix(JSONB)
        return self.explain(text.partition("\n")[0], column, value[:200])

    def discard(self, messages: Sequence[Any]) -> None:
        """Delete staged rows."""
        tokens = [message.token for message in messages if message is not None]
        try:
            with connect(self.dsn, "pgq spark abort") as conn:
                ask(conn, "select pgq.discard_staged(%s::uuid[])", tokens)
        except (ServerError, psycopg.OperationalError) as error:
            # Do not hide an earlier error; maintenance deletes orphans after a day.
            log.warning("staged messages are left for maintain() to delete: %s", error)


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
                server.connection()  # raises without retries
            fixed = None if "topic" in self.columns else topic
            server.ask("select pgq.writer_epoch('', %s)", fixed)
        finally:
            server.close()

    def fields(self) -> dict[str, Any]:
        import pyarrow as pa

        kinds: dict[DataType, Any] = {
            IntegerType(): pa.int32(),
            TimestampType(): pa.timestamp("us", tz="UTC"),
        }
        named = {} if "topic" in self.columns else {"topic": pa.string()}
        return named | {
            TARGET.get(name, name): kinds.get(WRITABLE[name], pa.string()) for name in self.columns
        }

    def arrays(self, batch: Any) -> list[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        kinds = self.fields()
        arrays = []
        if "topic" not in self.columns:
            arrays.append(pa.repeat(self.topic, batch.num_rows))
        for name in self.columns:
            kind = kinds[TARGET.get(name, name)]
            column = batch.column(batch.schema.get_field_index(name)).cast(kind)
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
            arrays.append(as_jsonb(column) if name in ("value", "headers") else column)
        return arrays

    def explain(self, error: str, column: str, value: str) -> OptionError:
        name = {"payload": "value"}.get(column, column)
        if name in ("value", "headers"):
            return OptionError(
                f"the column {name!r} is JSON text, and {json.dumps(value)} is not ({error}):"
                f" use to_json({name})"
            )
        return OptionError(f"{error} (column {name!r})")


# What a binary COPY expects before the text of a jsonb value: the version of the format.
JSONB: Final = "\x01"


def as_jsonb(column: Any) -> Any:
    """Return JSON texts as PostgreSQL receives jsonb in binary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(pa.scalar(JSONB), column, "")
