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

# As durable as PostgreSQL is by itself. Parallel workers would hide CPU from the backend's count.
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
    """A connection whose statements are prepared, and whose backend's CPU can be read."""

    def __init__(self, dsn: str, *, parse: bool = False) -> None:
        """Connect; JSON is left as it comes unless somebody wants to look into it."""
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
        """Return how much of that was spent in the kernel, to a clock tick."""
        # The second field is the name, in parentheses, with spaces; the 15th is meant.
        ticks = int(self._stat.read_text().rpartition(")")[2].split()[12])
        return ticks * 1_000_000 / os.sysconf("SC_CLK_TCK")

    def wal(self) -> int:
        """Return how many bytes the whole server has written to its log."""
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
        """Make a database with pgq and pgmq; the value is its connection string."""
        name = f"bench_{next(self._numbers)}"
        self.server.create_database(name, template=TEMPLATE)
        try:
            yield self.server.dsn(name)
        finally:
            self.server.drop_database(name)


@contextmanager
def start(scale: Scale, *, soak: float | None = None, durable: bool = True) -> Iterator[Bench]:
    """Start the server; it and all its data are gone when the context ends.

    Not durable is for those who count CPU only and are in a hurry.
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
    # Only its SQL is wanted; importing the package would need more packages.
    spec = find_spec("pgmq")
    places: Sequence[str] = (spec and spec.submodule_search_locations) or ()
    for place in places:
        if (script := Path(place) / "sql" / "pgmq.sql").exists():
            return script
    raise RuntimeError("no pgmq to compare with: make .venv/spark.stamp")
