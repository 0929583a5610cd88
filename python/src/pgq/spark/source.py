"""The queue as a data source: ``spark.read`` and ``spark.readStream`` with format ``pgq``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pgq.errors import LeaseLost
from pgq.spark._name import Name
from pgq.spark._rows import (
    LEASE_PARTS,
    ask,
    column_names,
    connect,
    known,
    quoted,
    read_arrow,
    read_lease,
    schema_of,
    select,
)
from pgq.spark.options import (
    BATCH_READ,
    LETTER_READ,
    STREAM_READ,
    OptionError,
    Options,
    check_schema,
)
from pgq.spark.sink import PgqStreamWriter, PgqWriter

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before 4.2; streamReader says so
    STREAMING = False
else:
    STREAMING = True

CLAIM_LEASE = timedelta(hours=1)
CHECK_FILTER: Final = "select pgq.compile_filter(%s::jsonb)"


class PgqDataSource(DataSource):
    """The format ``pgq``."""

    dsn = ""  # that of those who name none; register() knows it

    @classmethod
    def name(cls) -> str:
        return "pgq"

    def schema(self) -> StructType:
        given = {name.lower(): value.lower() for name, value in self.options.items()}
        return schema_of(
            column_names(
                headers=given.get("includeheaders", "true") != "false",
                more=given.get("includeall", "false") == "true",
            )
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        return PgqReader(
            Options(self.options, BATCH_READ, "reading", self.dsn), self.schema(), schema
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if not STREAMING:
            raise OptionError("streams from pgq need PySpark 4.2 or newer")
        return PgqStreamReader(
            Options(self.options, STREAM_READ, "a stream", self.dsn), self.schema(), schema
        )

    def writer(self, schema: StructType, overwrite: bool) -> PgqWriter:
        return PgqWriter(self.options, schema, overwrite, self.dsn)

    def streamWriter(self, schema: StructType, overwrite: bool) -> PgqStreamWriter:
        return PgqStreamWriter(self.options, schema, overwrite, self.dsn)


class PgqReader(DataSourceReader):
    """A batch: what is ready (peek), a named claim (claim), or all that the log has (log).

    The claim is made when the plan is; reads change nothing, so that Spark may repeat them.
    """

    def __init__(self, options: Options, ours: StructType, schema: StructType) -> None:
        check_schema(ours, schema)
        self.schema = schema
        self.names = schema.fieldNames()
        self.dsn = options.dsn
        self.replica = options.text("replica") or self.dsn
        self.topic = options.text("topic") or ""
        self.filter = options.filter()
        self.mode = options.choice("mode", "peek", "claim", "log")
        self.lease_id = options.text("leaseid")
        self.slot = options.text("slot")
        self.slices = options.number("numpartitions", 0, 0, 10_000)
        self.n = options.number("n", 100_000, 1, 1_000_000)
        self.lease = options.span("lease", CLAIM_LEASE)
        self.key = options.text("key")
        if not (self.lease_id or self.slot):
            options.required("topic", "the queue to read")
        if self.mode == "claim" and not (self.key or self.lease_id):
            raise OptionError(
                "pgq claims need the option 'key', the name of the claim: Spark reads more than"
                " once, and only a named claim is the same every time"
            )
        if self.mode == "claim" and options.text("replica"):
            raise OptionError("a replica can be peeked at, not claimed from")
        for option in ("key", "n", "lease") if self.mode != "claim" else ():
            if options.text(option) is not None:
                raise OptionError(f"the option {option!r} is for mode 'claim'")

    def partitions(self) -> Sequence[InputPartition]:
        if self.mode == "log":
            return self._log_parts()
        if self.mode == "peek":
            with connect(self.replica, "pgq spark plan") as conn:
                ask(conn, CHECK_FILTER, self.filter or "{}")
                ((ready,),) = ask(conn, "select pgq.backlog(%s)", self.topic)
            count = self.slices or slices_for(ready)
            return [InputPartition((None, number, count)) for number in range(count)]
        with connect(self.dsn, "pgq spark plan") as conn:
            if self.lease_id:
                found = [(int(self.lease_id), self.n)]
            else:
                found = ask(
                    conn,
                    "select lease_id, size from pgq.hold(%s, %s, %s::jsonb, %s, %s)",
                    *(self.topic, self.key, self.filter, self.n, self.lease),
                )
            if not found:
                return [InputPartition(None)]
            ((lease, size),) = found
            count = self.slices or slices_for(size)
            return [
                InputPartition((lease, low, high, known(*about)))
                for low, high, _, *about in ask(conn, LEASE_PARTS, lease, count)
            ]

    def _log_parts(self) -> Sequence[InputPartition]:
        """Ranges of ids, up to the last one that there is now."""
        with connect(self.replica, "pgq spark plan") as conn:
            ask(conn, CHECK_FILTER, self.filter or "{}")
            ((low, high),) = ask(
                conn,
                "select min(id), max(id) from pgq.message where era = coalesce(%s, era)",
                None if self.slot is None else int(self.slot),
            )
        if low is None:
            return [InputPartition(None)]
        count = self.slices or slices_for(high - low)
        step = (high - low) // count + 1
        return [InputPartition((-1, first, first + step)) for first in range(low, high + 1, step)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is None:
            return
        lease, number, count, *same = partition.value
        if lease == -1:
            slot = None if self.slot is None else int(self.slot)
            if self.filter is None:
                rows = quoted(
                    "(select m.*, 0 as attempt from pgq.message m where m.id >= {} and m.id < {}"
                    " and m.topic = coalesce({}, m.topic) and m.era = coalesce({}, m.era)) m",
                    *(number, count, self.topic or None, slot),
                )
            else:
                rows = quoted(
                    "pgq.read_log({}, {}, {}, {}::jsonb, {})",
                    *(number, count, self.topic or None, self.filter, slot),
                )
            yield from read_arrow(self.replica, select(self.names, rows), self.schema)
        elif lease is None:
            rows = quoted(
                "pgq.peek_slice({}, {}::jsonb, {}, {})", self.topic, self.filter, number, count
            )
            yield from read_arrow(self.replica, select(self.names, rows), self.schema)
        else:
            yield from read_lease(self.dsn, lease, number, count, self.schema, *same)


def slices_for(messages: int) -> int:
    """Return into how many parts to read so many messages, if the user does not say."""
    cores = os.cpu_count() or 2
    return max(1, min(cores * 2, messages // 20_000))


if STREAMING:

    class PgqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        """A stream of numbered batches; the offset is the number of the last one.

        Batch n is the named claim n of the consumer. `latestOffset` finishes the batch before and
        claims the next one, `read` changes nothing, `commit` finishes: each of them can be
        repeated, and so a restart from a checkpoint goes on where it was.
        """

        def __init__(self, options: Options, ours: StructType, schema: StructType) -> None:
            check_schema(ours, schema)
            self.schema = schema
            self.dsn = options.dsn
            self.topic = options.required("topic", "the queue to read")
            self.consumer = options.required(
                "consumer", "a name that stays, under which batches are claimed"
            )
            self.filter = options.filter()
            self.most = options.number("maxmessagespertrigger", 100_000, 1, 1_000_000)
            self.slices = options.number("numpartitions", 0, 0, 10_000)
            self.lease = options.span("lease")
            self.timeout = options.span("timeout") or timedelta(seconds=30)
            self.strict = options.flag("failondataloss", True)
            options.choice("startingoffsets", "earliest")
            self.left: int | None = None
            self._name: Name | None = None

        def __getstate__(self) -> dict[str, Any]:
            """Without the name and its connection: readers travel to executors."""
            return self.__dict__ | {"_name": None}

        def name(self) -> Name:
            """The consumer's name, which this process takes when it needs it first."""
            if self._name is None:
                name = Name(self.dsn, self.topic, self.consumer, self.timeout, self.lease)
                if self.filter is not None:
                    name.ask(CHECK_FILTER, self.filter)
                name.begin()
                self._name = name
            return self._name

        # Offsets

        def initialOffset(self) -> dict[str, int]:
            return {"batch": self.name().begin()}

        def getDefaultReadLimit(self) -> ReadLimit:
            return ReadMaxRows(self.most)

        def prepareForTriggerAvailableNow(self) -> None:
            """What is ready now is all that this run reads, whatever is published meanwhile."""
            self.left = self._ready()

        def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.most
            if isinstance(limit, ReadAllAvailable):
                most = 1_000_000
            if self.left is not None:
                most = min(most, self.left)
            if most < 1:
                # The batch before is finished all the same, or the last one would stay leased;
                # and one that was claimed just before a crash is not left behind.
                self.commit(start)
                left = self._batch(start["batch"] + 1)
                return {"batch": start["batch"] + 1} if left else start
            claimed = self.name().claim(start["batch"] + 1, self.filter, most)
            if claimed is None:
                return start
            if self.left is not None:
                self.left = max(0, self.left - claimed[1])
            return {"batch": start["batch"] + 1}

        def reportLatestOffset(self) -> dict[str, int]:
            """For the progress report: how many messages are ready behind the batch."""
            return {"ready": self._ready()}

        def _ready(self) -> int:
            ((ready,),) = self.name().ask("select pgq.backlog(%s)", self.topic)
            return int(ready)

        def commit(self, end: dict[str, int]) -> None:
            self.name().finish(end["batch"])

        def stop(self) -> None:
            if self._name is not None:
                self._name.end()

        # Data

        def partitions(
            self, start: dict[str, int], end: dict[str, int]
        ) -> Sequence[InputPartition]:
            parts: list[InputPartition] = []
            for batch in range(start["batch"] + 1, end["batch"] + 1):
                found = self._batch(batch)
                if not found:
                    self._lost(f"batch {batch} of consumer {self.consumer!r} is lost")
                    continue
                ((lease, size),) = found
                count = self.slices or slices_for(size)
                parts += [
                    InputPartition((batch, lease, low, high, expected, known(*about)))
                    for low, high, expected, *about in self.name().ask(LEASE_PARTS, lease, count)
                ]
            return parts or [InputPartition(None)]

        def _batch(self, batch: int) -> list[tuple[int, int]]:
            return self.name().ask(
                "select lease_id, size from pgq.stream_batch(%s, %s, %s)",
                *(self.topic, self.consumer, batch),
            )

        def read(self, partition: InputPartition) -> Iterator[Any]:
            if partition.value is None:
                return
            batch, lease, low, high, expected, same = partition.value
            found = 0
            try:
                for records in read_lease(self.dsn, lease, low, high, self.schema, same):
                    found += records.num_rows
                    yield records
            except LeaseLost:
                found = 0
            if found != expected:
                self._lost(
                    f"batch {batch} of consumer {self.consumer!r} has lost"
                    f" {expected - found} of {expected} messages from id {low} on"
                )

        def _lost(self, what: str) -> None:
            if self.strict:
                raise LeaseLost(
                    f"{what}",
                    detail="Its lease was broken or has expired; others have the messages now.",
                    hint="With failOnDataLoss=false the stream goes on without them.",
                )


LETTERS: dict[str, tuple[DataType, str]] = {
    "queue": (StringType(), "q.name"),
    "id": (LongType(), "d.message_id"),
    "topic": (StringType(), "d.topic"),
    "reason": (StringType(), "d.reason"),
    "error": (StringType(), "d.error"),
    "attempts": (IntegerType(), "d.attempts"),
    "failed_at": (TimestampType(), "d.failed_at"),
    "holder": (StringType(), "d.holder"),
    "value": (StringType(), "d.payload::text"),
    "headers": (StringType(), "d.headers::text"),
}


class PgqDeadLetterSource(DataSource):
    """The format ``pgq_dead_letter``: the dead letters of all queues, or of one."""

    dsn = ""

    @classmethod
    def name(cls) -> str:
        return "pgq_dead_letter"

    def schema(self) -> StructType:
        return StructType([StructField(name, kind) for name, (kind, _) in LETTERS.items()])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options(self.options, LETTER_READ, "dead letters", self.dsn)
        return PgqDeadLetterReader(options, self.schema())


class PgqDeadLetterReader(DataSourceReader):
    """Ranges of dead letters, up to the last one that there is when the plan is made."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.schema = schema
        self.dsn = options.text("replica") or options.dsn
        self.topic = options.text("topic")
        self.slices = options.number("numpartitions", 0, 0, 10_000)

    def partitions(self) -> Sequence[InputPartition]:
        with connect(self.dsn, "pgq spark plan") as conn:
            ((low, high),) = ask(
                conn, "select min(dead_letter_id), max(dead_letter_id) from pgq.dead_letter"
            )
        if low is None:
            return [InputPartition(None)]
        step = (high - low) // (self.slices or slices_for(high - low)) + 1
        return [InputPartition((first, first + step)) for first in range(low, high + 1, step)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is None:
            return
        columns = ", ".join(f"{where} as {name}" for name, (_, where) in LETTERS.items())
        rows = quoted(
            "pgq.dead_letter d join pgq.queue q on q.queue_id = d.queue_id"
            " where d.dead_letter_id >= {} and d.dead_letter_id < {}",
            *partition.value,
        )
        if self.topic:
            rows += quoted(" and q.name = {}", self.topic)
        yield from read_arrow(self.dsn, f"select {columns} from {rows}", self.schema)
