"""Every message ever published: archived copies of eras in Parquet, and the live log.

`pgq.log_parts` returns, from one snapshot, the copies and the part of the live log that together
have each message up to an id exactly once. An era that was live in that snapshot may be archived,
and its slot truncated, before a task reads it. Therefore a task that reads the live log prevents
its truncation (`pgq.log_lock`), and reads eras that were archived after the plan from their copies.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Final
from urllib.parse import unquote

from psycopg.conninfo import make_conninfo
from pyspark.sql.types import StructType

from pgq.matching import Message, World, compile_filter, loads
from pgq.spark._rows import (
    PLAN,
    ServerError,
    arrow_schema,
    ask,
    close,
    keep,
    quoted,
    select,
    start_reading,
)

Ranges = list[tuple[int, int]]
LOCK: Final = "select era, path, slot, is_new from pgq.log_lock({}, {}) order by era"
# The columns of a copy that a filter reads: headers and payload.
FIELDS: Final = ("headers", "value")


@dataclass(frozen=True)
class Bounds:
    """A part of the log: ids from `low` to before `high`, times from `since` to before `until`."""

    low: int = 0
    high: int | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Files:
    """A part of the plan: files of a copy, and which of their messages to read."""

    files: tuple[tuple[str, str], ...]  # each with its topic
    low: int
    high: int  # inclusive
    skip: Ranges


@dataclass(frozen=True)
class Live:
    """A part of the plan: a range of ids of the live log; if `ids` is not None, only these."""

    after: int  # the last era that was archived
    low: int
    high: int  # inclusive
    ids: Ranges | None
    whole: bool  # whether the table itself may be read


def safe_high(conn: Any, topic: str | None) -> tuple[int, int, list[str]]:
    """Return the first and last id of the log, and the transactions that may add smaller ids."""
    ((low, high, publishers),) = ask(
        conn, "select low, high, publishers from pgq.log_range(%s)", topic
    )
    ((copied,),) = ask(
        conn,
        "select coalesce(max(up_to), 0) from pgq.log_parts(%s, %s) where era is not null",
        2**62,
        topic,
    )
    last = max(high or 0, int(copied))
    return low or last, last, publishers


def running(conn: Any, publishers: list[str]) -> list[tuple[str, int]]:
    """Return the given transactions that are still running, with the pids of their sessions."""
    return ask(
        conn,
        "select distinct l.virtualtransaction, l.pid from pg_locks l"
        " where l.locktype = 'virtualxid' and l.virtualtransaction = any (%s)",
        publishers,
    )


def await_publishers(conn: Any, high: int, publishers: list[str], timeout: timedelta) -> None:
    """Wait until no transaction can add a message up to that id."""
    deadline = time.monotonic() + timeout.total_seconds()
    while publishers:
        found = running(conn, publishers)
        publishers = [transaction for transaction, _ in found]
        if publishers and time.monotonic() > deadline:
            raise ServerError(
                f"the log up to id {high} may still change: the session {found[0][1]} has"
                " published and not committed",
                hint="Let its transaction end, or wait for longer with the option 'timeout'.",
            )
        if publishers:
            time.sleep(0.1)


class WholeLog:
    """The messages of a topic, or of all topics, in the archive and in the live log."""

    def __init__(
        self,
        dsn: str,
        topic: str | None,
        filter: str | None,
        schema: StructType,
        bounds: Bounds,
        archive: str | None,
        *,
        strict: bool = True,
    ) -> None:
        self.dsn = dsn
        self.topic = topic
        self.filter = filter
        self.schema = schema
        self.bounds = bounds
        self.archive = archive
        self.strict = strict
        self.where = ""  # more conditions for the live log

    # The plan

    def plan(self, conn: Any, low: int, high: int, slices: int) -> list[Files | Live]:
        """Return the parts that together have each message from `low` to `high` once."""
        found = ask(
            conn,
            "select era, path, started_at, messages, low, up_to, ids from pgq.log_parts(%s, %s)",
            high,
            self.topic,
        )
        *copies, (*_, first, _, late) = found
        parts: list[Files | Live] = []
        after = -1
        total = max(1, sum(messages or 0 for *_, messages, _, _, _ in copies))
        for (era, path, _, messages, start, up_to, skip), following in zip_longest(
            copies, copies[1:]
        ):
            if start is None:
                self._lost(f"era {era} was emptied before it was archived")
                continue
            after = max(after, era)
            ends = None if following is None else following[2]
            since = self.bounds.since
            # The time of a message is the start of its transaction, before it entered the log.
            is_older = since is not None and ends is not None and ends < since
            if up_to < low or start > high or is_older:
                continue
            if path is None:
                self._lost(f"era {era} was archived without a path")
                continue
            span = (max(start, low), min(up_to, high), clip(skip, start, up_to))
            for group in split(self.files(path), slices * messages // total):
                parts.append(Files(tuple(group), *span))
        ((whole,),) = ask(conn, "select has_table_privilege('pgq.message', 'select')")
        begin = max(first, low)
        old = clip(late, low, min(first - 1, high))
        if old:
            parts.append(Live(after, old[0][0], old[-1][1] - 1, old, whole))
        if begin <= high:
            step = (high - begin) // max(1, slices) + 1
            for start in range(begin, high + 1, step):
                parts.append(Live(after, start, min(start + step - 1, high), None, whole))
        return parts

    def _lost(self, what: str) -> None:
        if self.strict:
            raise ServerError(
                f"{what}: its messages are gone",
                hint="With failOnDataLoss=false the others are read.",
            )

    def files(self, path: str) -> list[tuple[str, str]]:
        """Return the files of a copy that may have messages of the topic, each with its topic."""
        from pyarrow import fs

        if self.archive is not None:  # the archive was moved
            path = f"{self.archive.rstrip('/')}/{path.rsplit('/', 1)[-1]}"
        system, base = file_system(path)
        chosen = []
        days = [
            None if moment is None else (moment + timedelta(days=more)).date().isoformat()
            for moment, more in ((self.bounds.since, -1), (self.bounds.until, 1))
        ]
        try:
            found = system.get_file_info(fs.FileSelector(base, recursive=True))
        except FileNotFoundError:
            raise ServerError(
                f"the copy {path} is not there",
                hint="If the archive was moved, name its directory by the option 'archive'.",
            ) from None
        for info in found:
            inside = info.path[len(base) :].strip("/").split("/")
            if info.type != fs.FileType.File or not inside[-1].endswith(".parquet"):
                continue
            values = dict(part.partition("=")[::2] for part in inside[:-1])
            topic, day = unquote(values.get("topic", "")), values.get("day", "")
            # The time zone of the days is unknown: read one more day on both sides.
            if (
                (self.topic is None or topic == self.topic)
                and (days[0] is None or day >= days[0] or day.startswith("_"))
                and (days[1] is None or day <= days[1] or day.startswith("_"))
            ):
                chosen.append((joined(path, base, info.path), topic))
        return chosen

    # The messages

    def read(self, part: Files | Live) -> Iterator[Any]:
        """Yield the messages of a part as record batches."""
        if isinstance(part, Live):
            yield from self._read_live(part)
            return
        for file, topic in part.files:
            yield from self._read_file(file, topic, part.low, part.high, part.skip)

    def _read_live(self, part: Live) -> Iterator[Any]:
        import pyarrow as pa

        names = [*self.schema.fieldNames()]
        wanted = names if "id" in names else [*names, "id"]
        address = make_conninfo(self.dsn, application_name="pgq spark read")
        conn, eras = start_reading(address, quoted(LOCK, part.after, self.topic))
        slots = [slot for _, _, slot, _ in eras if slot is not None]
        moved = [(era, path) for era, path, _, is_new in eras if is_new]
        seen: list[Any] = []
        try:
            with conn.cursor() as cursor:
                cursor.execute(f"select {PLAN}")
                cursor.fetchall()
                cursor.execute(self._live_query(part, wanted, slots))
                for batch in cursor.fetch_record_batch():
                    if moved:
                        seen.append(batch.column("id").to_numpy())
                    yield self._batch(batch)
            conn.rollback()
        except BaseException:
            close(conn)
            raise
        keep(address, conn)
        if not moved:
            return
        done = sorted_ids(seen)
        for era, path in moved:
            if path is None:
                self._lost(f"era {era} was archived without a path")
                continue
            for file, topic in self.files(path):
                for batch in self._read_file(
                    file, topic, part.low, part.high, [], columns=wanted, only=part.ids
                ):
                    ids = batch.column("id").to_numpy()
                    fresh = batch.filter(pa.array(~is_in(ids, done)))
                    done = sorted_ids([done, ids])
                    yield fresh.select(names)

    def _live_query(self, part: Live, names: list[str], slots: list[int]) -> str:
        high = part.high + 1
        if self.filter is None and part.whole:
            rows = quoted(
                "(select m.*, 0 as attempt from pgq.message m where m.id >= {} and m.id < {}"
                " and m.topic = coalesce({}, m.topic) and m.era <> all ({}::smallint[])) m",
                part.low,
                high,
                self.topic,
                slots,
            )
        else:
            rows = quoted(
                "pgq.read_log({}, {}, {}, {}::jsonb, skip => {}::int[]) m",
                part.low,
                high,
                self.topic,
                self.filter,
                slots,
            )
        rows += " where true"
        if part.ids is not None:
            text = "{" + ",".join(f"[{low},{high})" for low, high in part.ids) + "}"
            rows += quoted(" and id <@ {}::int8multirange", text)
        return select(names, rows + self.then())

    def then(self) -> str:
        """Return the SQL conditions of the pushed filters and the time bounds."""
        rows = self.where
        if self.bounds.since is not None:
            rows += quoted(" and published_at >= {}", self.bounds.since)
        if self.bounds.until is not None:
            rows += quoted(" and published_at < {}", self.bounds.until)
        return rows

    def _read_file(
        self,
        file: str,
        topic: str,
        low: int,
        high: int,
        skip: Ranges,
        *,
        columns: Sequence[str] | None = None,
        only: Ranges | None = None,
    ) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = list(columns or self.schema.fieldNames())
        system, path = file_system(file)
        reader = pq.ParquetFile(system.open_input_file(path), coerce_int96_timestamp_unit="us")
        there = set(reader.schema_arrow.names)
        wanted = {*names, "id", "timestamp", *(FIELDS if self.filter else ())}
        test = None if self.filter is None else compile_filter(loads(self.filter))
        target = arrow_schema(self.schema, names)
        for batch in reader.iter_batches(
            row_groups=groups(reader, low, high), columns=sorted(wanted & there)
        ):
            ids = batch.column("id").to_numpy()
            chosen = (ids >= low) & (ids <= high) & ~is_within(ids, skip)
            if only is not None:
                chosen &= is_within(ids, only)
            times = as_utc(batch.column("timestamp"))
            chosen &= self._is_then(times)
            if test is not None:
                chosen &= self._matches(test, batch, chosen)
            if not chosen.any():
                continue
            rows = batch.filter(pa.array(chosen))
            yield pa.RecordBatch.from_arrays(
                [column_of(rows, field, topic) for field in target], schema=target
            )

    def _is_then(self, times: Any) -> Any:
        import numpy as np

        micros = times.cast("int64").to_numpy(zero_copy_only=False)
        chosen = np.ones(len(micros), dtype=bool)
        if self.bounds.since is not None:
            chosen &= micros >= micros_of(self.bounds.since)
        if self.bounds.until is not None:
            chosen &= micros < micros_of(self.bounds.until)
        return chosen

    def _matches(self, test: Any, batch: Any, chosen: Any) -> Any:
        import numpy as np

        now = Decimal(datetime.now(UTC).timestamp())
        headers, values = (batch.column(name).to_pylist() for name in FIELDS)
        return np.array(
            [
                bool(keep and test(World(Message(loads(header), loads(value)), now)))
                for keep, header, value in zip(chosen, headers, values, strict=True)
            ],
            dtype=bool,
        )

    def _batch(self, batch: Any) -> Any:
        import pyarrow as pa

        target = arrow_schema(self.schema)
        arrays = [batch.column(field.name).cast(field.type) for field in target]
        return pa.RecordBatch.from_arrays(arrays, schema=target)


def column_of(rows: Any, field: Any, topic: str) -> Any:
    """Return a column of a copy with the type that Spark expects."""
    import pyarrow as pa

    if field.name == "topic":
        return pa.repeat(pa.scalar(topic), rows.num_rows)
    if field.name == "attempt":
        return pa.repeat(pa.scalar(0, field.type), rows.num_rows)
    if field.name not in rows.schema.names:  # no message of this era has used it
        return pa.nulls(rows.num_rows, field.type)
    column = rows.column(field.name)
    return as_utc(column) if pa.types.is_timestamp(field.type) else column.cast(field.type)


def as_utc(column: Any) -> Any:
    """Return times of Parquet as timestamps with the time zone UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.timestamp("us", tz="UTC")
    if column.type.tz is None:
        column = pc.assume_timezone(column, "UTC")
    return column.cast(kind)


def micros_of(moment: datetime) -> int:
    """Return a time in microseconds since 1970, exactly."""
    span = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def groups(reader: Any, low: int, high: int) -> list[int]:
    """Return the row groups that may have ids from `low` to `high`."""
    chosen = []
    column = reader.schema_arrow.get_field_index("id")
    for number in range(reader.num_row_groups):
        found = reader.metadata.row_group(number).column(column).statistics
        if found is None or not found.has_min_max or (found.min <= high and found.max >= low):
            chosen.append(number)
    return chosen


def clip(ids: Any, low: int, high: int) -> Ranges:
    """Return the ranges of a set of ids, clipped to `low` and `high`."""
    return [
        (max(r.lower, low), min(r.upper, high + 1))
        for r in ids
        if r.lower <= high and r.upper > low
    ]


def is_within(ids: Any, ranges: Ranges) -> Any:
    """Return for each id whether one of the ranges, which are sorted, contains it."""
    import numpy as np

    if not ranges:
        return np.zeros(len(ids), dtype=bool)
    lows = np.array([low for low, _ in ranges])
    highs = np.array([high for _, high in ranges])
    index = np.searchsorted(lows, ids, side="right") - 1
    return (index >= 0) & (ids < highs[np.maximum(index, 0)])


def sorted_ids(parts: list[Any]) -> Any:
    import numpy as np

    return np.sort(np.concatenate(parts)) if parts else np.array([], dtype="int64")


def is_in(ids: Any, known: Any) -> Any:
    import numpy as np

    return np.isin(ids, known)


def split(items: list[Any], count: int) -> list[list[Any]]:
    """Split the items into at most `count` groups."""
    count = min(max(1, count), len(items))
    return [items[number::count] for number in range(count)]


def file_system(path: str) -> tuple[Any, str]:
    """Return the pyarrow file system of a Hadoop path, and the path in it."""
    from pyarrow import fs

    if "://" not in path and not path.startswith("file:"):
        return fs.LocalFileSystem(), path
    scheme, _, rest = path.partition(":")
    if scheme == "file":
        return fs.LocalFileSystem(), "/" + rest.lstrip("/")
    uri = f"s3:{rest}" if scheme in ("s3a", "s3n") else path
    try:
        system, base = fs.FileSystem.from_uri(uri)
    except Exception as error:
        raise ServerError(
            f"pyarrow cannot read from {path}: {error}",
            hint="mode=all reads file:, s3a:, gs:, abfs: and hdfs:. Name the same directory by one"
            " of these in the option 'archive'.",
        ) from None
    return system, base


def joined(path: str, base: str, file: str) -> str:
    """Return the path of a file, with the scheme of the directory that it was found in."""
    return path[: len(path) - len(base)] + file if path.endswith(base) else f"file://{file}"
