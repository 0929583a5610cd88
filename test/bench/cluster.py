"""One durable server for all measurements, with pgq and pgmq side by side in each database."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import psycopg
from psycopg.types.string import TextLoader

from harness.paths import ROOT
from pgq import embedded

Scale = Literal["small", "full"]
T = TypeVar("T")

# Durability as by default. CPU of parallel workers would not be counted with the backend's.
SETTINGS: dict[str, embedded.Setting] = {
    "fsync": True,
    "synchronous_commit": True,
    "full_page_writes": True,
    "jit": False,
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "autovacuum": True,
    "max_parallel_workers_per_gather": 0,
    "max_connections": 100,
}
TEMPLATE = "bench_template"


class Session:
    """A connection with prepared statements that can read the CPU time of its backend."""

    def __init__(self, dsn: str, *, parse: bool = False) -> None:
        """Connect. JSON stays text unless `parse` is set."""
        self.conn = psycopg.connect(dsn, autocommit=True, prepare_threshold=0)
        if not parse:
            self.conn.adapters.register_loader("jsonb", TextLoader)
        process = Path(f"/proc/{self.conn.info.backend_pid}")
        self._schedstat, self._stat = process / "schedstat", process / "stat"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.conn.close()

    def execute(self, query: str, *parameters: object) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.conn.execute(query.encode(), parameters or None)

    def value(self, query: str, *parameters: object) -> Any:
        row = self.execute(query, *parameters).fetchone()
        if row is None:
            raise LookupError(f"no row: {query}")
        return row[0]

    def cpu(self) -> float:
        """Return the CPU time of the backend so far, in microseconds."""
        return int(self._schedstat.read_text().split()[0]) / 1000

    def kernel(self) -> float:
        """Return the part of the CPU time that was spent in the kernel, in clock ticks."""
        # stime is field 15. Field 2, the name, may contain spaces, so count after its parenthesis.
        ticks = int(self._stat.read_text().rpartition(")")[2].split()[12])
        return ticks * 1_000_000 / os.sysconf("SC_CLK_TCK")

    def wal(self) -> int:
        """Return how many bytes of WAL the whole server has written."""
        return int(self.value("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))


@dataclass
class Bench:
    """The server, and how much to measure on it."""

    server: embedded.Server
    scale: Scale
    soak: float | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def pick(self, small: T, full: T) -> T:
        """Return the value for the scale of this run."""
        return full if self.scale == "full" else small

    @contextmanager
    def database(self) -> Iterator[str]:
        """Create a database with pgq and pgmq, drop it at the end; yield its connection string."""
        name = f"bench_{next(self._numbers)}"
        self.server.create_database(name, template=TEMPLATE)
        try:
            yield self.server.dsn(name)
        finally:
            self.server.drop_database(name)


@contextmanager
def start(scale: Scale, *, soak: float | None = None, durable: bool = True) -> Iterator[Bench]:
    """Start the server; the end of the context stops it and deletes its data.

    `durable=False` turns fsync off, for runs that count only CPU.
    """
    hasty: dict[str, embedded.Setting] = {} if durable else {"fsync": False}
    with embedded.start(extension_dir=ROOT, settings=SETTINGS | hasty) as server:
        dsn = server.create_database(TEMPLATE)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("create schema pgmq")
            conn.execute(_pgmq_script().read_bytes())
        yield Bench(server, scale, soak)


def _pgmq_script() -> Path:
    # Find the script without importing the package: an import needs more packages.
    spec = find_spec("pgmq")
    directories: Sequence[str] = (spec and spec.submodule_search_locations) or ()
    for directory in directories:
        if (script := Path(directory) / "sql" / "pgmq.sql").exists():
            return script
    raise RuntimeError("no pgmq to compare with: make .venv/spark.stamp")
