"""Servers to test on: an embedded one, or one that is running already."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString, Protocol

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from harness.paths import ROOT
from pgq import embedded

# Enough for tests; the defaults of PostgreSQL reserve more than a small machine can spare.
SETTINGS: dict[str, embedded.Setting] = {
    "max_connections": 60,
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "10min",
}


class Server(Protocol):
    """The properties of a server that tests use."""

    def dsn(self, dbname: str = "postgres") -> str: ...
    def environment(self, dbname: str = "postgres") -> dict[str, str]: ...
    def program(self, name: str) -> Path: ...
    def create_database(self, name: str, *, template: str = "template1") -> str: ...
    def drop_database(self, name: str) -> None: ...


class RunningServer:
    """A server that is already running, named by a DSN and the PG* variables."""

    def __init__(self, base: str = "") -> None:
        self._base = base

    def dsn(self, dbname: str = "postgres") -> str:
        return make_conninfo(self._base, dbname=dbname)

    def environment(self, dbname: str = "postgres") -> dict[str, str]:
        return os.environ | {"PGDATABASE": dbname}

    def program(self, name: str) -> Path:
        return Path(name)

    def create_database(self, name: str, *, template: str = "template1") -> str:
        self._execute("create database {} template {}", name, template)
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        self._execute("drop database if exists {} with (force)", name)

    def _execute(self, statement: LiteralString, *names: str) -> None:
        with psycopg.connect(self.dsn(), autocommit=True) as conn:
            conn.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def embedded_server(
    *extension_dirs: Path, **settings: embedded.Setting
) -> Iterator[embedded.Server]:
    """Start an embedded server that has pgq's files, or those of other directories."""
    with embedded.start(
        extension_dir=extension_dirs or ROOT, durable=False, settings=SETTINGS | settings
    ) as server:
        yield server


def psql(server: Server, dbname: str, *arguments: str | Path) -> str:
    """Run psql, stopping at the first error; return its output."""
    done = subprocess.run(
        [server.program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *arguments],
        env=server.environment(dbname),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"psql: {done.stdout.strip()}")
    return done.stdout
