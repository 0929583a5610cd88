"""The queue as a sink: ``df.write`` and ``df.writeStream`` with format ``pgq``.

Each attempt of each task stages its rows under its own token. When all tasks are done, the driver
publishes the rows of the successful attempts in one transaction; a batch of a stream is published
once. With the option ``table`` the rows go into a table of PostgreSQL instead, and the messages
that the batch was read from are acknowledged in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import psycopg
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructField, StructType

from pgq.spark._rows import Server, ServerError, ask
from pgq.spark._stage import MessageStaging, Staged, Staging
from pgq.spark._table import Table, commit_staged
from pgq.spark.options import WRITE, OptionError, Options

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriter
except ImportError:  # before 4.1: PgqStreamWriter raises an error
    StreamWriter = DataSourceStreamWriter  # type: ignore[assignment, misc]


class Sink:
    """The common part of both writers: it stages rows and commits them."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, dsn: str, *, patient: bool = False
    ) -> None:
        known = Options(options, WRITE, "writing", dsn)
        self.dsn = known.dsn
        self.writer = known.text("writer")
        self.epoch = known.text("epoch")
        self.anew = known.flag("newcheckpoint", False)
        self.table: Table | None = None
        self.messages: Staging | None = None  # in addition to the rows of a table
        name = known.text("table")
        if name is None:
            for option in ("tablemode", "tablekeys", "update", "publish"):
                if known.text(option) is not None:
                    raise OptionError(f"the option {option!r} is for writing to a 'table'")
            topic = known.text("topic")
            self.staging: Staging = MessageStaging(self.dsn, schema, topic, patient=patient)
            return
        column = known.text("publish")
        if (column is None) != (known.text("topic") is None):
            raise OptionError(
                "with a 'table', 'topic' and 'publish' belong together: the queue, and the column"
                " with the message of a row, null for none"
            )
        fields = [field for field in schema if field.name != column]
        if column is not None and len(fields) == len(schema):
            raise OptionError(f"there is no column {column!r} to publish")
        keys = known.text("tablekeys")
        self.table = Table(
            self.dsn,
            name,
            StructType(fields),
            known.choice("tablemode", "append", "upsert"),
            None if keys is None else [key.strip() for key in keys.split(",")],
            known.text("update"),
            patient=patient,
        )
        self.staging = self.table
        if column is not None:
            value = StructType([StructField("value", schema[column].dataType)])
            topic = known.text("topic")
            self.messages = MessageStaging(self.dsn, value, topic, patient=patient)
            self.column = column

    def stage(self, iterator: Iterator[Any]) -> Staged:
        """Stage the rows of a task, and the messages in the column `publish`."""
        if self.messages is None:
            return self.staging.stage(iterator)
        found: list[Any] = []

        def rows() -> Iterator[Any]:
            for batch in iterator:
                found.append(values_of(batch, self.column))
                yield batch.drop_columns([self.column])

        staged = self.staging.stage(rows())
        return replace(staged, messages=self.messages.stage(iter(found)))

    def commit(self, staged: list[Any], epoch: int | None) -> None:
        """Write or publish the rows that the successful tasks have staged, all or none."""
        done = [message for message in staged if message is not None]
        if self.table is None:
            self.publish(done, epoch)
            return
        commit_staged(
            self.dsn,
            [(self.table, done)],
            [message.messages for message in done if message.messages is not None],
            reader=next((m.reader for m in done if m.reader is not None), None),
            query=next((m.query for m in done if m.query is not None), None),
            writer=self.writer,
            epoch=epoch,
            anew=self.anew,
        )

    def publish(self, done: list[Staged], epoch: int | None) -> None:
        query = next((m.query for m in done if m.query is not None), None)
        size = sum(m.size for m in done)
        values = [m.token for m in done], size, self.writer, epoch, query, self.anew
        statement = "select pgq.publish_staged(%s::uuid[], %s, %s, %s, %s, %s)"
        server = Server(self.dsn, "pgq spark commit")
        try:
            if self.writer is not None:
                server.ask(statement, *values)  # may run twice: an epoch is published once
                return
            # Without a writer it is unknown whether a commit without an answer took effect.
            server.ask("select 1")
            ask(server.connection(), statement, *values)
        except psycopg.OperationalError as error:
            if self.writer is not None or not server.is_broken():
                raise
            raise ServerError(
                f"the connection broke while {size} messages were published: {str(error).strip()}",
                hint="They may have been published. With the options 'writer' and 'epoch' a write"
                " can be repeated: it happens once.",
            ) from None
        finally:
            server.close()

    def discard(self, staged: list[Any]) -> None:
        done = [message for message in staged if message is not None]
        self.staging.discard([*done, *(m.messages for m in done)])


def values_of(batch: Any, column: str) -> Any:
    """Return the messages in a column, without nulls, as a batch with the column ``value``."""
    import pyarrow as pa

    values = batch.column(column).drop_null()
    return pa.RecordBatch.from_arrays([values], names=["value"])


class PgqWriter(DataSourceArrowWriter):
    """The writer of a batch: the driver publishes it when all tasks are done."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, overwrite: bool, dsn: str = ""
    ) -> None:
        if overwrite:
            raise OptionError("a queue cannot be overwritten: use mode('append')")
        self.target = Sink(options, schema, dsn)
        writer, epoch = self.target.writer, self.target.epoch
        if (writer is None) != (epoch is None):
            raise OptionError("'writer' and 'epoch' belong together: a batch that is written once")
        if epoch is not None and not epoch.lstrip("-").isdigit():
            raise OptionError(f"the option 'epoch' is a number, not {epoch!r}")
        if self.target.table is not None and writer is None:
            raise OptionError(
                "a table is written once: give the options 'writer' and 'epoch'; in foreachBatch"
                " use pgq.spark.commit()"
            )

    def write(self, iterator: Iterator[Any]) -> Staged:
        return self.target.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if not any(message.size for message in messages if isinstance(message, Staged)):
            return  # an epoch without messages does not count as done
        epoch = self.target.epoch
        self.target.commit(messages, None if epoch is None else int(epoch))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.target.discard(messages)


class PgqStreamWriter(StreamWriter):
    """The writer of a stream: batch n of the query is epoch n, and is published once.

    Rows of a table are committed together with the batch of the queue that they come from. Then the
    number of that batch prevents a second commit, and no writer is needed.
    """

    def __init__(
        self, options: Mapping[str, str], schema: StructType, overwrite: bool, dsn: str = ""
    ) -> None:
        if StreamWriter is DataSourceStreamWriter:
            raise OptionError("streams into pgq need PySpark 4.1 or newer")
        # A writer is created for each batch, so wait for a server that is being restarted.
        self.target = Sink(options, schema, dsn, patient=True)
        if not self.target.writer and self.target.table is None:
            raise OptionError(
                "a stream into pgq needs the option 'writer', a name that belongs to its checkpoint"
            )
        if self.target.epoch is not None:
            raise OptionError("a stream counts its epochs itself: leave out the option 'epoch'")

    def write(self, iterator: Iterator[Any]) -> Staged:
        return self.target.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.target.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.target.discard(messages)
