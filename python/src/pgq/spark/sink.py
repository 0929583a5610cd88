"""The queue as a sink: ``df.write`` and ``df.writeStream`` with format ``pgq``.

Each attempt of each task stages its rows under a token of its own. When all tasks are done the
driver publishes the tokens of those that count, in one transaction; a stream's batch only once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import DataType, IntegerType, StringType, StructType, TimestampType

from pgq.spark._rows import ask, connect
from pgq.spark.options import WRITE, OptionError, Options, check_columns

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriter
except ImportError:  # before 4.1; the writer says so
    StreamWriter = DataSourceStreamWriter  # type: ignore[assignment, misc]

# A column of Spark, and where its values go.
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


@dataclass
class Staged(WriterCommitMessage):
    """What one attempt of a task has staged."""

    token: str
    size: int


class Stage:
    """What both writers share: the columns, and how they are staged and published."""

    def __init__(self, options: Mapping[str, str], schema: StructType, dsn: str) -> None:
        known = Options(options, WRITE, "writing", dsn)
        self.dsn = known.dsn
        self.topic = known.text("topic")
        self.writer = known.text("writer")
        self.epoch = known.text("epoch")
        self.columns = [name for name, _ in check_columns(schema, WRITABLE, self.topic)]
        with connect(self.dsn, "pgq spark plan") as conn:
            ask(conn, "select pgq.writer_epoch('')")

    def stage(self, batches: Iterator[Any]) -> Staged:
        token = str(uuid.uuid4())
        size = 0
        fixed = ["token", "position", *([] if "topic" in self.columns else ["topic"])]
        target = ", ".join([*fixed, *(TARGET.get(name, name) for name in self.columns)])
        with connect(self.dsn, "pgq spark write") as conn, conn.cursor() as cursor:
            query = f"copy pgq.staged ({target}) from stdin (format csv)"
            with conn.transaction(), cursor.copy(query.encode()) as copy:
                for batch in batches:
                    if batch.num_rows:
                        copy.write(self.as_csv(batch, token, size))
                        size += batch.num_rows
        return Staged(token, size)

    def as_csv(self, batch: Any, token: str, position: int) -> bytes:
        """Return the rows as COPY reads them: text is quoted, so that nothing is not ''."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.csv

        rows = batch.num_rows
        arrays = [pa.repeat(token, rows), pa.array(range(position, position + rows), pa.int32())]
        if "topic" not in self.columns:
            arrays.append(pa.repeat(self.topic, rows))
        for name in self.columns:
            column = batch.column(batch.schema.get_field_index(name))
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

    def publish(self, messages: list[Any], writer: str | None, epoch: int | None) -> int:
        done = [message for message in messages if message is not None]
        with connect(self.dsn, "pgq spark commit") as conn:
            ((count,),) = ask(
                conn,
                "select pgq.publish_staged(%s::uuid[], %s, %s, %s)",
                *([m.token for m in done], sum(m.size for m in done), writer, epoch),
            )
        return int(count)

    def discard(self, messages: list[Any]) -> None:
        tokens = [message.token for message in messages if message is not None]
        with connect(self.dsn, "pgq spark abort") as conn:
            ask(conn, "select pgq.discard_staged(%s::uuid[])", tokens)


class PgqWriter(DataSourceArrowWriter):
    """A batch: published by the driver when all tasks are done."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, overwrite: bool, dsn: str = ""
    ) -> None:
        if overwrite:
            raise OptionError("a queue cannot be overwritten: use mode('append')")
        self.target = Stage(options, schema, dsn)
        writer, epoch = self.target.writer, self.target.epoch
        if (writer is None) != (epoch is None):
            raise OptionError("'writer' and 'epoch' belong together: a batch that is written once")
        if epoch is not None and not epoch.lstrip("-").isdigit():
            raise OptionError(f"the option 'epoch' is a number, not {epoch!r}")

    def write(self, iterator: Iterator[Any]) -> Staged:
        return self.target.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        epoch = self.target.epoch
        self.target.publish(messages, self.target.writer, None if epoch is None else int(epoch))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.target.discard(messages)


class PgqStreamWriter(StreamWriter):
    """A stream: batch n of the query is epoch n of the writer, and is published once."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, overwrite: bool, dsn: str = ""
    ) -> None:
        if StreamWriter is DataSourceStreamWriter:
            raise OptionError("streams into pgq need PySpark 4.1 or newer")
        self.target = Stage(options, schema, dsn)
        if not self.target.writer:
            raise OptionError(
                "a stream into pgq needs the option 'writer', a name that belongs to its checkpoint"
            )
        if self.target.epoch is not None:
            raise OptionError("a stream counts its epochs itself: leave out the option 'epoch'")

    def write(self, iterator: Iterator[Any]) -> Staged:
        return self.target.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.target.publish(messages, self.target.writer, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.target.discard(messages)
