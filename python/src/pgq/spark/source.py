"""The queue as a data source: ``spark.read`` and ``spark.readStream`` with format ``pgq``."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
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
from pgq.spark._log import (
    Bounds,
    Files,
    Live,
    WholeLog,
    await_publishers,
    running,
    safe_high,
)
from pgq.spark._name import Name
from pgq.spark._push import conditions, narrowed
from pgq.spark._rows import (
    LEASE_PARTS,
    Server,
    ask,
    column_names,
    connect,
    known,
    note_read,
    quoted,
    read_arrow,
    read_lease,
    schema_of,
    select,
)
from pgq.spark._shape import Shape
from pgq.spark._stage import query_and_reader
from pgq.spark.options import (
    BATCH_READ,
    LEASE,
    LETTER_READ,
    STREAM_READ,
    WRITE,
    N,
    OptionError,
    Options,
)
from pgq.spark.sink import PgqStreamWriter, PgqWriter

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before 4.2: streamReader raises an error
    STREAMING = False
else:
    STREAMING = True

# Options of a batch that only some modes have.
MODES: Final = {
    ("claim",): ("key", "n", "lease", "groupruns"),
    ("log", "all"): (
        "timeout",
        "startingoffsets",
        "endingoffsets",
        "startingtimestamp",
        "endingtimestamp",
    ),
    ("all",): ("archive", "failondataloss"),
}
IDLE = 1.0  # the shortest time between two queries of an idle stream, in seconds
log = logging.getLogger("pgq.spark")
READ: Final = BATCH_READ | STREAM_READ
CHECK_FILTER: Final = "select pgq.compile_filter(%s::jsonb)"


class PgqDataSource(DataSource):
    """The format ``pgq``."""

    dsn = ""  # the default database; register() sets it
    cores = 0  # of the executors; register() sets it
    pushes = False  # whether the session allows filter pushdown

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)  # type: ignore[arg-type]
        # load() calls this, when it is unknown whether it is for a batch, a stream or a writer.
        Options(options, READ | WRITE, "reading or writing").check()

    @classmethod
    def name(cls) -> str:
        return "pgq"

    def schema(self) -> StructType | str:
        return Shape(Options(self.options, READ, "reading", self.dsn, self.cores)).described()

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options(self.options, BATCH_READ, "reading", self.dsn, self.cores)
        return (PushingReader if self.pushes else PgqReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if not STREAMING:
            raise OptionError("streams from pgq need PySpark 4.2 or newer")
        options = Options(self.options, STREAM_READ, "a stream", self.dsn, self.cores)
        if options.choice("mode", "queue", "all") == "all":
            return PgqLogStreamReader(options, schema)
        return PgqStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> PgqWriter:
        return PgqWriter(self.options, schema, overwrite, self.dsn)

    def streamWriter(self, schema: StructType, overwrite: bool) -> PgqStreamWriter:
        return PgqStreamWriter(self.options, schema, overwrite, self.dsn)


class PgqReader(DataSourceReader):
    """The reader of a batch: ready messages (peek), a named claim (claim), the log (log, all).

    `partitions` makes the claim. `read` changes nothing, so that Spark may repeat it.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self.shape = Shape(options)
        self.schema = self.shape.choose(schema)
        self.names = self.schema.fieldNames()
        self.dsn = options.dsn
        self.replica = options.text("replica") or self.dsn
        self.topic = options.text("topic") or ""
        self.filter = options.filter()
        self.mode = options.choice("mode", "peek", "claim", "log", "all")
        self.lease_id = options.text("leaseid")
        self.slot = options.text("slot")
        self.slices = options.number("numpartitions", 0, 0, 10_000)
        self.cores = options.cores
        self.n = options.number("n", N, 1, 1_000_000)
        self.lease = options.span("lease", LEASE)
        self.timeout = options.span("timeout") or timedelta(minutes=1)
        self.key = options.text("key")
        self.runs = options.flag("groupruns", True)
        if not (self.lease_id or self.slot):
            options.required("topic", "the queue to read")
        if self.mode == "claim" and options.text("replica"):
            raise OptionError("a replica can be peeked at, not claimed from")
        for modes, names in MODES.items():
            for option in names if self.mode not in modes else ():
                if options.text(option) is not None:
                    wanted = " or ".join(map(repr, modes))
                    raise OptionError(f"the option {option!r} is for mode {wanted}")
        if self.mode == "all" and options.text("replica"):
            raise OptionError("a replica does not know who is publishing: read all from the server")
        self.log = whole_log(options, self.schema)
        self.where = ""  # conditions that Spark has pushed down

    def push(self, filters: Sequence[Any]) -> None:
        """Push filters down, so that fewer rows are read."""
        self.where = self.log.where = conditions(filters)
        self.log.bounds = narrowed(self.log.bounds, filters)

    def partitions(self) -> Sequence[InputPartition]:
        if self.mode in ("log", "all"):
            return self._log_parts()
        if self.mode == "peek":
            with connect(self.replica, "pgq spark plan") as conn:
                ask(conn, CHECK_FILTER, self.filter or "{}")
                ((ready,),) = ask(conn, "select pgq.backlog(%s)", self.topic)
            count = self.slices or slices_for(ready, self.cores)
            return [InputPartition((None, number, count)) for number in range(count)]
        with connect(self.dsn, "pgq spark plan") as conn:
            if self.lease_id:
                found = [(int(self.lease_id), self.n)]
            else:
                found = ask(
                    conn,
                    "select lease_id, size from pgq.hold(%s, %s, %s::jsonb, %s, %s, %s)",
                    self.topic,
                    self.key,
                    self.filter,
                    self.n,
                    self.lease,
                    self.runs,
                )
            if not found:
                return [InputPartition(None)]
            ((lease, size),) = found
            count = self.slices or slices_for(size, self.cores)
            return [
                InputPartition((lease, low, high, known(*about)))
                for low, high, _, *about in ask(conn, LEASE_PARTS, lease, count)
            ]

    def _log_parts(self) -> Sequence[InputPartition]:
        """Return ranges of ids, up to the current last id.

        When the transactions that are publishing have ended, no message is added below that id.
        So every read of the plan returns the same messages.
        """
        slot = None if self.slot is None else int(self.slot)
        bounds = self.log.bounds
        with connect(self.replica, "pgq spark plan") as conn:
            ask(conn, CHECK_FILTER, self.filter or "{}")
            if self.mode == "all":
                low, high, publishers = safe_high(conn, self.topic or None)
                high = high if bounds.high is None else min(high, bounds.high - 1)
                await_publishers(conn, high, publishers, self.timeout)
                count = self.slices or slices_for(high - max(low, bounds.low), self.cores)
                parts = self.log.plan(conn, bounds.low, high, count)
                return [InputPartition(part) for part in parts] or [InputPartition(None)]
            ((low, high, publishers),) = ask(
                conn,
                "select low, high, publishers from pgq.log_range(%s, %s)",
                self.topic or None,
                slot,
            )
            if low is None:
                return [InputPartition(None)]
            low = max(low, bounds.low)
            high = high if bounds.high is None else min(high, bounds.high - 1)
            if slot is None:
                await_publishers(conn, high, publishers, self.timeout)
            ((whole,),) = ask(conn, "select has_table_privilege('pgq.message', 'select')")
        count = self.slices or slices_for(high - low, self.cores)
        step = max(0, high - low) // count + 1
        return [
            InputPartition((-1, first, min(first + step, high + 1), whole))
            for first in range(low, high + 1, step)
        ] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.shape.make(self._read(partition))

    def _read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is None:
            return
        if isinstance(partition.value, Files | Live):
            yield from self.log.read(partition.value)
            return
        lease, number, count, *about = partition.value
        if lease == -1:
            slot = None if self.slot is None else int(self.slot)
            if self.filter is None and about[0]:
                rows = quoted(
                    "(select m.*, 0 as attempt from pgq.message m where m.id >= {} and m.id < {}"
                    " and m.topic = coalesce({}, m.topic) and m.era = coalesce({}, m.era)) m",
                    number,
                    count,
                    self.topic or None,
                    slot,
                )
            else:
                rows = quoted(
                    "pgq.read_log({}, {}, {}, {}::jsonb, {})",
                    number,
                    count,
                    self.topic or None,
                    self.filter,
                    slot,
                )
            rows += " where true" + self.log.then()
            yield from read_arrow(self.replica, select(self.names, rows), self.schema)
        elif lease is None:
            rows = quoted(
                "pgq.peek_slice({}, {}::jsonb, {}, {}) where true",
                self.topic,
                self.filter,
                number,
                count,
            )
            rows += self.where
            yield from read_arrow(self.replica, select(self.names, rows), self.schema)
        else:
            try:
                yield from read_lease(
                    self.dsn, lease, number, count, self.schema, about[0], self.where
                )
            except LeaseLost:
                if self.key is None:
                    raise
                raise LeaseLost(
                    f"the claim {self.key!r} of queue {self.topic!r} has ended",
                    detail="It was acknowledged or given back, or its lease has expired.",
                    hint="A DataFrame or a view keeps the claim of its plan: load it again.",
                ) from None


class PushingReader(PgqReader):
    """A reader with filter pushdown; Spark refuses it unless the session allows pushdown."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        self.push(filters)
        return filters


def as_frame(
    spark: SparkSession, options: Mapping[str, Any], schema: StructType | None = None
) -> DataFrame:
    """Return what a batch reads with these options, planned in this process.

    ``spark.read`` starts two Python processes for a plan, which take 0.9 s of CPU.
    """
    reader = reader_of(spark, options, schema)
    parts = reader.partitions()

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from reader.read(parts[number])

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(read, reader.schema)


def reader_of(
    spark: SparkSession, options: Mapping[str, Any], schema: StructType | None = None
) -> PgqReader:
    """Return the reader of a batch with these options."""
    given = {name.lower(): str(value) for name, value in options.items()}
    known = Options(given, BATCH_READ, "reading", cores=count_cores(spark))
    return PgqReader(known, schema or schema_of(column_names()))


def count_cores(spark: SparkSession) -> int:
    """Return the number of cores of the executors; 0 for Spark Connect, where it is unknown."""
    if not isinstance(spark, SparkSession):
        return 0
    return int(spark.sparkContext.defaultParallelism)


def whole_log(options: Options, schema: StructType) -> WholeLog:
    """Return the log with the bounds of the options."""
    low, high = (
        options.offset("startingoffsets", "earliest"),
        options.offset("endingoffsets", "latest"),
    )
    return WholeLog(
        options.dsn,
        options.text("topic"),
        options.filter(),
        schema,
        Bounds(
            low if isinstance(low, int) else 0,
            high if isinstance(high, int) else None,
            options.moment("startingtimestamp"),
            options.moment("endingtimestamp"),
        ),
        options.text("archive"),
        strict=options.flag("failondataloss", True),
    )


def slices_for(messages: int, cores: int = 0) -> int:
    """Return the default number of partitions for so many messages.

    :param cores: the cores of the executors; 0 if unknown, then those of this machine count.
    """
    return max(1, min((cores or os.cpu_count() or 2) * 2, messages // 20_000))


if STREAMING:

    class PgqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        """A stream of numbered batches; the offset is the number of the last one.

        Batch n is the named claim n of the consumer. `latestOffset` finishes the previous batch and
        claims the next one, `read` changes nothing, `commit` finishes a batch. Each of them can be
        repeated, so a restart continues from the checkpoint.
        """

        def __init__(self, options: Options, schema: StructType) -> None:
            self.shape = Shape(options)
            self.schema = self.shape.choose(schema)
            self.dsn = options.dsn
            self.topic = options.required("topic", "the queue to read")
            self.subscription = options.text("subscription")
            self.consumer = options.text("consumer") or self.subscription or ""
            if not self.consumer.strip():
                options.required("consumer", "a name that stays, under which batches are claimed")
            self.filter = options.filter()
            self.most = options.number("maxmessagespertrigger", N, 1, 1_000_000)
            self.slices = options.number("numpartitions", 0, 0, 10_000)
            self.cores = options.cores
            self.lease = options.span("lease")
            self.timeout = options.span("timeout") or timedelta(seconds=30)
            self.strict = options.flag("failondataloss", True)
            self.anew = options.flag("newcheckpoint", False)
            self.runs = options.flag("groupruns", True)
            for option in ("archive", "startingtimestamp"):
                if options.text(option) is not None:
                    raise OptionError(f"the option {option!r} of a stream is for mode 'all'")
            starts = ("earliest", "latest") if self.subscription else ("earliest",)
            self.latest = options.choice("startingoffsets", *starts) == "latest"
            self.left: int | None = None
            self.finished: int | None = None  # the last batch when this process began
            self.committed: int | None = None  # the last batch finished in one commit with results
            self.initial: int | None = None  # the initial offset of a new checkpoint
            self.skipped = 0
            self._name: Name | None = None
            self._idle_since: float | None = None
            self._backlog: dict[str, int] | None = None

        def __getstate__(self) -> dict[str, Any]:
            """Leave out the name and its connection: readers are sent to executors."""
            return self.__dict__ | {"_name": None}

        @property
        def queue(self) -> str:
            """The queue to claim from: that of the subscription, if there is one."""
            return self.subscription or self.topic

        def name(self) -> Name:
            """Return the consumer's name; the first call takes its ownership."""
            if self._name is None:
                name = Name(self.dsn, self.queue, self.consumer, self.timeout, self.lease)
                if self.filter is not None:
                    name.ask(CHECK_FILTER, self.filter)
                if self.subscription is not None and not name.ask(
                    "select from pgq.subscription where subscriber = %s and pattern = %s",
                    self.subscription,
                    self.topic,
                ):
                    name.ask(
                        "select pgq.subscribe(%s, %s, since_id => %s)",
                        self.subscription,
                        self.topic,
                        None if self.latest else 0,
                    )
                name.begin()
                self._name = name
            return self._name

        def bind(self, start: dict[str, Any]) -> int:
            """Bind the checkpoint to the name, once; return the last finished batch."""
            if self.finished is None:
                anew = self.anew or not self.strict
                bound = self.name().bind(start.get("query"), start["batch"], anew)
                self.finished, self.committed = bound.finished, bound.committed
                if start["batch"] < self.finished and not self.is_free():
                    self.skip(
                        f"the checkpoint is at batch {start['batch']}, and batches up to"
                        f" {self.finished} are finished: these are not read again",
                        self.finished - start["batch"],
                    )
            return self.finished

        def is_free(self) -> bool:
            """Whether finished batches can be skipped without loss.

            That is so if the last batch was finished in one commit with its results: a checkpoint
            that is behind has lost nothing.
            """
            return self.finished is not None and self.committed == self.finished

        def skip(self, what: str, batches: int = 1) -> None:
            """Log skipped batches, and count them for the progress report."""
            self.skipped += batches
            log.warning("consumer %r of queue %r: %s", self.consumer, self.queue, what)

        # Offsets

        def initialOffset(self) -> dict[str, Any]:
            """Return the offset of a new checkpoint; refused if the name has another checkpoint."""
            bound = self.name().bind(str(uuid.uuid4()), None, self.anew or not self.strict)
            self.finished, self.committed = bound.finished, bound.committed
            self.initial = bound.finished
            if self.finished and not self.is_free():
                log.warning(
                    "consumer %r of queue %r: a new checkpoint continues after batch %s",
                    self.consumer,
                    self.queue,
                    self.finished,
                )
            return {"batch": bound.finished, "query": bound.query}

        def getDefaultReadLimit(self) -> ReadLimit:
            return ReadMaxRows(self.most)

        def prepareForTriggerAvailableNow(self) -> None:
            """Limit this run to the messages that are there now."""
            self.left = sum(self._count().values())

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.most
            if isinstance(limit, ReadAllAvailable):
                most = 1_000_000
            if self.left is not None:
                most = min(most, self.left)
            finished = self.bind(start)
            batch = start["batch"] + 1
            if not self.strict or self.is_free():
                batch = max(batch, finished + 1)
            if most < 1:
                # Finish the previous batch, which would stay leased otherwise. Return a batch that
                # was claimed just before a crash.
                self.commit(start | {"batch": batch - 1})
                return start | {"batch": batch} if self._batch(batch) else start
            if self._is_idle():
                return start
            # A batch that was claimed before this run was not counted as ready.
            again = self.left is not None and bool(self._batch(batch))
            claimed = self.name().claim(batch, self.filter, most, self.runs)
            self._backlog = None
            if claimed is None:
                self._idle_since = time.monotonic()
                return start
            self._idle_since = None
            if self.left is not None and not again:
                self.left = max(0, self.left - claimed[1])
            return start | {"batch": batch}

        def _is_idle(self) -> bool:
            """Whether the last claim was empty a moment ago: Spark asks 100 times a second."""
            since = self._idle_since
            return since is not None and self.left is None and time.monotonic() < since + IDLE

        def _count(self) -> dict[str, int]:
            """Count ready messages, and those that wait in ordering groups."""
            found = self.name().ask(
                "select pgq.backlog(%s), coalesce(max(s.waiting), 0) from pgq.queue_stats s"
                " where s.queue = %s",
                self.queue,
                self.queue,
            )
            return dict(zip(("ready", "waiting"), map(int, found[0]), strict=True))

        def reportLatestOffset(self) -> dict[str, int]:
            """Return the backlog, for the progress report."""
            if self._backlog is None:
                self._backlog = self._count()
            return self._backlog | ({"skippedBatches": self.skipped} if self.skipped else {})

        def commit(self, end: dict[str, Any]) -> None:
            self.name().finish(end["batch"])

        def stop(self) -> None:
            if self._name is not None:
                self._name.end()

        # Data

        def partitions(
            self, start: dict[str, Any], end: dict[str, Any]
        ) -> Sequence[InputPartition]:
            parts: list[InputPartition] = []
            finished = self.bind(start)
            first = start["batch"] + 1
            if not self.strict or self.is_free():
                first = max(first, finished + 1)
            for batch in range(first, end["batch"] + 1):
                found = self._batch(batch)
                if not found:
                    self._lost(f"batch {batch} of consumer {self.consumer!r} is lost")
                    continue
                ((lease, size),) = found
                count = self.slices or slices_for(size, self.cores)
                parts += [
                    InputPartition((batch, lease, low, high, expected, known(*about)))
                    for low, high, expected, *about in self.name().ask(LEASE_PARTS, lease, count)
                ]
            # With a new checkpoint Spark repeats a first batch that may have been committed.
            again = self.initial is not None and end["batch"] <= self.initial
            self.initial = None
            if not parts and (again or start["batch"] < end["batch"]):
                # Return a partition without messages, so that the commit notices the batch.
                return [InputPartition((end["batch"], None, 0, 0, 0, {}))]
            return parts or [InputPartition(None)]

        def _batch(self, batch: int) -> list[tuple[int, int]]:
            return self.name().ask(
                "select lease_id, size from pgq.stream_batch(%s, %s, %s)",
                self.queue,
                self.consumer,
                batch,
            )

        def read(self, partition: InputPartition) -> Iterator[Any]:
            return self.shape.make(self._read(partition))

        def _read(self, partition: InputPartition) -> Iterator[Any]:
            if partition.value is None:
                return
            batch, lease, low, high, expected, same = partition.value
            _, reader = query_and_reader()
            if reader is not None:
                note = "select pgq.stream_read({}, {}, {}, {})"
                note_read(self.dsn, quoted(note, self.queue, self.consumer, batch, reader))
            if lease is None:
                return
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
            self.skip(what)

    class PgqLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        """A stream over all messages ever published: from the archive into the live log.

        The stream consumes nothing, and any number of streams can read the same messages. The
        offset is the id of the last message. No transaction can publish a message up to that id any
        more, so a range of ids always has the same messages.
        """

        def __init__(self, options: Options, schema: StructType) -> None:
            self.shape = Shape(options)
            for option in ("consumer", "subscription", "lease", "newcheckpoint", "groupruns"):
                if options.text(option) is not None:
                    raise OptionError(
                        f"the option {option!r} is for streams that consume: mode 'all' does not"
                    )
            self.dsn = options.dsn
            self.log = whole_log(options, self.shape.choose(schema))
            self.topic = options.text("topic")
            self.start = options.offset("startingoffsets", "earliest")
            self.most = options.number("maxmessagespertrigger", N, 1, 1_000_000)
            self.slices = options.number("numpartitions", 0, 0, 10_000)
            self.cores = options.cores
            self.timeout = options.span("timeout") or timedelta(minutes=1)
            self.safe = 0  # no transaction can add a message up to this id
            self.low = 0  # the first id of the live log
            self.waiting: tuple[int, list[str]] | None = None  # an id, and running publishers
            self.last: int | None = None  # the last id of a run with availableNow
            self._asked = 0.0
            self._server: Server | None = None

        def __getstate__(self) -> dict[str, Any]:
            return self.__dict__ | {"_server": None}

        def server(self) -> Server:
            if self._server is None:
                self._server = Server(self.dsn, "pgq spark stream")
                if self.log.filter is not None:
                    self._server.ask(CHECK_FILTER, self.log.filter)
            return self._server

        def find_safe(self, *, patient: bool = False) -> int:
            """Return the id up to which the log is final; query at most once a second.

            :param patient: query now, and wait for the transactions that are publishing.
            """
            if not patient and time.monotonic() < self._asked + IDLE:
                return self.safe
            self._asked = time.monotonic()

            def work(conn: Any) -> None:
                if self.waiting is not None:
                    high, publishers = self.waiting
                    if patient:
                        await_publishers(conn, high, publishers, self.timeout)
                    publishers = [transaction for transaction, _ in running(conn, publishers)]
                    if publishers:
                        self.waiting = (high, publishers)
                        return
                    self.safe, self.waiting = high, None
                self.low, high, publishers = safe_high(conn, self.topic)
                if publishers:
                    self.waiting = (high, publishers)
                else:
                    self.safe = high

            self.server().run(work)
            if patient and self.waiting is not None:
                return self.find_safe(patient=True)
            return self.safe

        def initialOffset(self) -> dict[str, int]:
            if isinstance(self.start, int):
                return {"id": self.start - 1}
            if self.start == "latest":
                return {"id": self.find_safe(patient=True)}
            if self.log.bounds.since is None:
                return {"id": 0}
            # Messages published after `since` have larger ids than all eras that ended before it.
            ((found,),) = self.server().ask(
                "select coalesce(max(l.up_to), 0) from (select p.up_to, lead(p.started_at) over"
                " (order by p.era) as ended from pgq.log_parts(%s, %s) p where p.low is not null"
                " and p.era is not null) l where l.ended <= %s",
                2**62,
                self.topic,
                self.log.bounds.since,
            )
            return {"id": int(found)}

        def getDefaultReadLimit(self) -> ReadLimit:
            return ReadMaxRows(self.most)

        def prepareForTriggerAvailableNow(self) -> None:
            self.last = self.find_safe(patient=True)

        def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
            last = self.find_safe() if self.last is None else self.last
            if last <= start["id"]:
                return start
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.most
            begin = self._skip_gap(start["id"], last)
            end = last if isinstance(limit, ReadAllAvailable) else min(last, begin + most)
            return {"id": end}

        def _skip_gap(self, start: int, last: int) -> int:
            """Return the id before the next message, so that no empty batches are read."""
            if start >= self.low - 1:
                return start
            ((covered, following),) = self.server().ask(
                "select bool_or(p.low <= %s + 1), min(p.low) from pgq.log_parts(%s, %s) p"
                " where p.up_to > %s and p.era is not null",
                start,
                last,
                self.topic,
                start,
            )
            if covered:
                return start
            return max(start, (self.low if following is None else min(following, self.low)) - 1)

        def reportLatestOffset(self) -> dict[str, int]:
            return {"id": self.safe}

        def partitions(
            self, start: dict[str, int], end: dict[str, int]
        ) -> Sequence[InputPartition]:
            count = self.slices or slices_for(end["id"] - start["id"], self.cores)
            parts = self.server().run(
                lambda conn: self.log.plan(conn, start["id"] + 1, end["id"], count)
            )
            return [InputPartition(part) for part in parts] or [InputPartition(None)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            if partition.value is not None:
                yield from self.shape.make(self.log.read(partition.value))

        def commit(self, end: dict[str, int]) -> None:
            pass

        def stop(self) -> None:
            if self._server is not None:
                self._server.close()


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
    cores = 0

    @classmethod
    def name(cls) -> str:
        return "pgq_dead_letter"

    def schema(self) -> StructType:
        return StructType([StructField(name, kind) for name, (kind, _) in LETTERS.items()])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options(self.options, LETTER_READ, "dead letters", self.dsn, self.cores)
        return PgqDeadLetterReader(options, self.schema())


class PgqDeadLetterReader(DataSourceReader):
    """Reads ranges of dead letters, up to the last one at the time of the plan."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.schema = schema
        self.dsn = options.text("replica") or options.dsn
        self.topic = options.text("topic")
        self.slices = options.number("numpartitions", 0, 0, 10_000)
        self.cores = options.cores

    def partitions(self) -> Sequence[InputPartition]:
        with connect(self.dsn, "pgq spark plan") as conn:
            ((low, high),) = ask(
                conn, "select min(dead_letter_id), max(dead_letter_id) from pgq.dead_letter"
            )
        if low is None:
            return [InputPartition(None)]
        step = (high - low) // (self.slices or slices_for(high - low, self.cores)) + 1
        return [InputPartition((first, first + step)) for first in range(low, high + 1, step)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is None:
            return
        columns = ", ".join(f"{where} as {name}" for name, (_, where) in LETTERS.items())
        rows = quoted(
            "pgq.dead_letter d join pgq._visible_queue q on q.queue_id = d.queue_id"
            " where d.dead_letter_id >= {} and d.dead_letter_id < {}",
            *partition.value,
        )
        if self.topic:
            rows += quoted(" and q.name = {}", self.topic)
        yield from read_arrow(self.dsn, f"select {columns} from {rows}", self.schema)
