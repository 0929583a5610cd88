"""Servers to test on: an embedded one, or the one that the PG* variables name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg import sql

from pgq import embedded

# Enough for tests; the defaults of PostgreSQL reserve more than a small machine can spare.
SETTINGS: dict[str, embedded.Setting] = {
    "max_connections": 60,
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "10min",
    "log_min_messages": "warning",
}


class TestServer(Protocol):
    """What a suite needs to know of a server."""

    def dsn(self, dbname: str = "postgres") -> str: ...
    def environment(self, dbname: str = "postgres") -> dict[str, str]: ...
    def program(self, name: str) -> Path: ...
    def create_database(self, name: str, *, template: str = "template1") -> str: ...
    def drop_database(self, name: str) -> None: ...


class RunningServer:
    """A server that somebody else started, reached by the PG* variables."""

    def dsn(self, dbname: str = "postgres") -> str:
        return psycopg.conninfo.make_conninfo("", dbname=dbname)

    def environment(self, dbname: str = "postgres") -> dict[str, str]:
        return os.environ | {"PGDATABASE": dbname}

    def program(self, name: str) -> Path:
        return Path(name)

    def create_database(self, name: str, *, template: str = "template1") -> str:
        self._execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        self._execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.dsn(), autocommit=True) as conn:
            conn.execute(statement)


@contextmanager
def embedded_server(*more_extensions: Path, **settings: embedded.Setting) -> Iterator[embedded.Server]:
    """Start an embedded server that has pgq and the other extensions at hand."""
    from harness.paths import ROOT

    with embedded.start(
        extension_dir=[ROOT, *more_extensions], durable=False, settings=SETTINGS | settings
    ) as server:
        yield server


def psql(server: TestServer, dbname: str, *arguments: str | Path) -> str:
    """Run psql, stopping at the first error; return what it printed."""
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


def check_invariants(conn: psycopg.Connection) -> list[str]:
    """Return what pgq.check() finds wrong with the queues, which is nothing if all is well."""
    found = conn.execute("select to_regprocedure('pgq.check()') is not null").fetchone()
    if found is None or not found[0]:
        return []
    return [str(row) for row in conn.execute("select * from pgq.check()").fetchall()]
