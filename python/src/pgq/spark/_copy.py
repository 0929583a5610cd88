"""Copies of eras on a file system that is mounted: tasks write Parquet and read it back.

Spark's own writer and its checksum take three times the CPU. They are used for the other paths of
Hadoop, such as s3a.

A task writes to hidden files, because it may be repeated. When all tasks are done, other tasks read
the files of the successful attempts back, and only then give them the names that readers look for.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from datetime import date
from hashlib import md5
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pgq.spark._rows import arrow_schema
from pgq.spark.source import PgqReader, count_cores

# The bytes of a row group, and the most that a task keeps in memory.
GROUP: Final = 32 * 1024 * 1024
KEPT: Final = 4 * GROUP
# The most messages that are read back at a time: more do not fit into the caches of a processor.
BATCH: Final = 8192
# The most files that a task writes at a time.
OPEN: Final = 64
# Columns with few different values.
REPEATED: Final = ("headers", "priority", "key", "sender", "recipient", "reply_to", "publisher")
# The columns that a checksum begins with, and those that can be null.
FIRST: Final = ("id", "topic", "priority", "headers", "value", "timestamp")
NULLABLE: Final = (
    "sender",
    "recipient",
    "reply_to",
    "correlation_id",
    "key",
    "dedup_key",
    "publisher",
    "deliver_at",
)
# The characters that Spark escapes in the name of a directory.
SPECIAL: Final = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^]")


def mounted(spark: SparkSession, target: str) -> str | None:
    """Return the path of a directory on a mounted file system; None if Hadoop has to write it."""
    if target.startswith("file:"):
        return "/" + target.removeprefix("file:").lstrip("/")
    if "://" in target or not isinstance(spark, SparkSession):
        return None
    settings: Any = spark.sparkContext._jsc  # noqa: SLF001
    default = str(settings.hadoopConfiguration().get("fs.defaultFS"))
    return str(Path(target).absolute()) if default.startswith("file:") else None


# Writing


class Directory:
    """The files that one attempt of a task writes, by topic and day."""

    def __init__(self, path: str, columns: StructType) -> None:
        if any(Path(path).rglob("*.parquet")):
            raise FileExistsError(f"{path} has files of another archive")
        self.path = Path(path)
        self.name = f".part-{uuid.uuid4()}"
        self.schema = arrow_schema(columns)
        self.schema = self.schema.remove(self.schema.get_field_index("topic"))
        self.pending: dict[Path, list[Any]] = {}
        self.sizes: dict[Path, int] = {}
        self.writers: dict[Path, Any] = {}
        self.files: list[Path] = []

    def add(self, batch: Any) -> None:
        """Add messages; write the row groups that are complete."""
        for place, rows in self.split(batch):
            self.pending.setdefault(place, []).append(rows)
            self.sizes[place] = self.sizes.get(place, 0) + rows.nbytes
            if self.sizes[place] >= GROUP:
                self.flush(place)
        if sum(self.sizes.values()) >= KEPT:
            for place in [*self.pending]:
                self.flush(place)

    def split(self, batch: Any) -> Iterator[tuple[Path, Any]]:
        """Yield the messages of each topic and day (of UTC), with the directory for them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        topics = batch.column("topic").dictionary_encode()
        days = pc.cast(pc.floor_temporal(batch.column("timestamp"), unit="day"), pa.int64())
        days = days.dictionary_encode()
        arrays = [self.column(batch, field) for field in self.schema]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        for t, topic in enumerate(topics.dictionary.to_pylist()):
            for d, day in enumerate(days.dictionary.to_pylist()):
                chosen = rows
                if len(topics.dictionary) > 1 or len(days.dictionary) > 1:
                    chosen = rows.filter(
                        pc.and_(pc.equal(topics.indices, t), pc.equal(days.indices, d))
                    )
                if chosen.num_rows:
                    then = date.fromordinal(day // 86_400_000_000 + 719_163)  # days since 1970
                    yield self.path / f"topic={escaped(topic)}" / f"day={then}", chosen

    def column(self, batch: Any, field: Any) -> Any:
        import pyarrow as pa

        if field.name in batch.schema.names:
            return batch.column(field.name)
        return pa.nulls(batch.num_rows, field.type)

    def flush(self, place: Path) -> None:
        """Write the pending messages of a directory as a row group."""
        import pyarrow as pa

        self.sizes[place] = 0
        table = pa.Table.from_batches(self.pending.pop(place), self.schema)
        if place not in self.writers and len(self.writers) == OPEN:
            self.close_files()
        self.writer(place).write_table(table, table.num_rows)

    def writer(self, place: Path) -> Any:
        import pyarrow.parquet as pq

        if place not in self.writers:
            place.mkdir(parents=True, exist_ok=True)
            file = place / f"{self.name}-{len(self.files)}"
            self.files.append(file)
            handle = file.open("wb")
            self.writers[place] = (
                handle,
                pq.ParquetWriter(
                    handle, self.schema, compression="snappy", use_dictionary=[*REPEATED]
                ),
            )
        return self.writers[place][1]

    def close_files(self) -> None:
        for handle, writer in self.writers.values():
            writer.close()
            handle.flush()
            os.fsync(handle.fileno())  # the era is truncated because of this file
            handle.close()
        self.writers.clear()

    def close(self) -> list[str]:
        """Write the rest; return the files."""
        for place in [*self.pending]:
            self.flush(place)
        self.close_files()
        return [str(file) for file in self.files]


def escaped(topic: str) -> str:
    """Return a topic as Spark writes it in the name of a directory."""
    return SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", topic)


def write_files(
    spark: SparkSession, reader: PgqReader, columns: StructType, path: str
) -> list[str]:
    """Write the messages of a reader to hidden files of a directory; return the files."""
    parts = reader.partitions()

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column("id").to_pylist():
                directory = Directory(path, columns)
                for rows in reader.read(parts[number]):
                    directory.add(rows)
                yield pa.record_batch([pa.array(directory.close(), pa.string())], ["file"])

    written = spark.range(0, len(parts), 1, len(parts)).mapInArrow(work, "file string")
    return [row["file"] for row in written.collect()]


# Reading back


def publish_files(spark: SparkSession, files: list[str]) -> tuple[int, int]:
    """Read hidden files back, and make them visible; return their messages and their checksum."""
    slices = max(1, min(len(files), (count_cores(spark) or 2) * 2))

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column("id").to_pylist():
                for file in files[number::slices]:
                    count, checksum = read_back(Path(file))
                    arrays = [pa.array([count], pa.int64()), pa.array([checksum], pa.int64())]
                    yield pa.record_batch(arrays, ["count", "checksum"])

    found = spark.range(0, slices, 1, slices).mapInArrow(work, "count long, checksum long")
    rows = found.collect()
    return sum(row["count"] for row in rows), sum(row["checksum"] for row in rows)


def read_back(hidden: Path) -> tuple[int, int]:
    """Return the number of messages in a hidden file and their checksum; make the file visible."""
    import pyarrow.parquet as pq

    visible = hidden.with_name(hidden.name.removeprefix(".") + ".parquet")
    count = total = 0
    # An earlier attempt of the task may have renamed the file.
    with pq.ParquetFile(visible if visible.exists() else hidden) as file:
        topic = unescaped(visible.parent.parent.name.removeprefix("topic="))
        for rows in file.iter_batches(BATCH, use_threads=False):
            count += rows.num_rows
            total += checksum_of(rows, topic)
    if hidden.exists():
        hidden.rename(visible)
    handle = os.open(visible.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return count, total


def unescaped(name: str) -> str:
    return re.sub(r"%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), name)


def checksum_of(rows: Any, topic: str) -> int:
    """Return the sum of the checksums of messages, as pgq.archived computes it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    def column(name: str) -> Any:
        if name == "topic":
            return pa.scalar(topic)
        values = rows.column(name)
        if values.null_count == len(values):
            return pa.scalar("-")
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.int64())
        values = values.cast(pa.string())
        if name in NULLABLE:
            values = pc.binary_join_element_wise("=", values, "")
        return pc.coalesce(values, "-") if values.null_count else values

    # Adjacent constants are joined first, which saves a tenth of the time.
    parts: list[Any] = []
    for part in map(column, (*FIRST, *NULLABLE, "expires_at")):
        if parts and isinstance(part, pa.Scalar) and isinstance(parts[-1], pa.Scalar):
            parts[-1] = pa.scalar(f"{parts[-1]}|{part}")
        else:
            parts.append(part)
    lines = pc.binary_join_element_wise(*parts, "|").cast(pa.binary())
    digests = b"".join([md5(line).digest() for line in lines.to_pylist()])
    # The first 8 hexadecimal digits are the first 4 of 16 bytes.
    return int(np.frombuffer(digests, ">u4")[::4].sum(dtype="int64"))
