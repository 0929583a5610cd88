"""Files and objects: JSON lines or Parquet; each batch is one file, written atomically."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from pgq.relay.destination import Record

__all__ = ["Files"]

_COMPRESSIONS = {
    "jsonl": {"gzip": ".jsonl.gz", "none": ".jsonl"},
    "parquet": {
        "zstd": ".parquet",
        "snappy": ".parquet",
        "gzip": ".parquet",
        "none": ".parquet",
    },
}


class Files:
    """Writes each batch into a file ``YYYY/MM/DD/QUEUE-FIRST-LAST-LEASE.jsonl.gz``.

    FIRST and LAST are the lowest and the highest id of the file. A batch that is sent again has the
    same file name and the same bytes, so it replaces its earlier file.

    :param store: a `Directory`, or `Objects` of any storage that fsspec supports.
    :param format: jsonl or parquet (which needs pyarrow).
    :param compression: gzip or none; for Parquet zstd, snappy, gzip or none.
    :param name: the prefix of the file names.
    """

    keeps_batches: ClassVar[bool] = True
    batch_size = 10_000
    linger = 60.0

    def __init__(
        self,
        store: Directory | Objects,
        *,
        format: str = "jsonl",
        compression: str | None = None,
        name: str = "messages",
        label: str = "",
    ) -> None:
        if format not in _COMPRESSIONS:
            raise ValueError(f"format is jsonl or parquet, not {format!r}")
        known = _COMPRESSIONS[format]
        compression = compression or next(iter(known))
        if compression not in known:
            raise ValueError(f"compression of {format} is {', '.join(known)}, not {compression!r}")
        if format == "parquet":
            import_module("pyarrow.parquet")  # fail here, not at the first message
        self.label = label or "files"
        self._store = store
        self._format = format
        self._compression = compression
        self._suffix = known[compression]
        self._name = name.replace("/", "_")

    def send(self, batch: str, records: Sequence[Record]) -> Mapping[int, str]:
        """Write the file."""
        ids = [record.id for record in records]
        day = records[0].published_at.astimezone(UTC).strftime("%Y/%m/%d")
        file = f"{self._name}-{min(ids)}-{max(ids)}-{batch}{self._suffix}"
        self._store.put(f"{day}/{file}", self._bytes(records))
        return {}

    def close(self) -> None:
        """Do nothing: no file is open between batches."""

    def _bytes(self, records: Sequence[Record]) -> bytes:
        if self._format == "parquet":
            return _parquet(records, self._compression)
        data = "".join(record.document() + "\n" for record in records).encode()
        return gzip.compress(data, 6, mtime=0) if self._compression == "gzip" else data


def _parquet(records: Sequence[Record], compression: str) -> bytes:
    arrow: Any = import_module("pyarrow")
    moment, text = arrow.timestamp("us", tz="UTC"), arrow.string()
    columns = {
        "id": arrow.int64(),
        "topic": text,
        "priority": arrow.int32(),
        "headers": text,
        "payload": text,
        "sender": text,
        "recipient": text,
        "reply_to": text,
        "correlation_id": text,
        "group_key": text,
        "published_at": moment,
        "expires_at": moment,
    }
    source = {"headers": "headers_json", "payload": "payload_json"}
    table = arrow.table(
        [
            arrow.array([getattr(record, source.get(name, name)) for record in records], kind)
            for name, kind in columns.items()
        ],
        schema=arrow.schema(list(columns.items())),
    )
    sink = arrow.BufferOutputStream()
    import_module("pyarrow.parquet").write_table(table, sink, compression=compression)
    data: bytes = sink.getvalue().to_pybytes()
    return data


class Directory:
    """A directory of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mode = 0o666 & ~_umask()

    def put(self, name: str, data: bytes) -> None:
        """Write a temporary file, sync it, and rename it."""
        target = self._path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), self._mode)
                os.fsync(file.fileno())
            os.replace(scratch, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(scratch)
            raise
        for directory in (target.parent, *target.parent.parents):
            _sync(directory)
            if directory == self._path:
                break


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Objects:
    """A bucket or another storage of fsspec in which putting an object is atomic."""

    def __init__(self, scheme: str, path: str, *, timeout: float = 30.0, **options: Any) -> None:
        self._path = path.rstrip("/")
        if scheme == "s3":
            # No retries here: the relay retries.
            config = {
                "connect_timeout": min(timeout, 10.0),
                "read_timeout": timeout,
                "retries": {"max_attempts": 1},
            }
            options = {"config_kwargs": config} | options
        import_module("s3fs" if scheme == "s3" else "fsspec")
        # Skip fsspec's cache: a cached instance may belong to another address.
        self._system: Any = import_module("fsspec").filesystem(
            scheme, use_listings_cache=False, skip_instance_cache=True, **options
        )
        if scheme == "s3":
            self._system.retries = 1

    def put(self, name: str, data: bytes) -> None:
        """Put an object."""
        self._system.pipe_file(f"{self._path}/{name}", data)
