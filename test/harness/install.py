"""Install pgq in a database, and check its invariants."""

from __future__ import annotations

import psycopg

from harness.paths import ROOT
from pgq import __version__


def install(conn: psycopg.Connection) -> None:
    """Create the extension if the server has this version's files, else run its script."""
    available = conn.execute(
        "select from pg_available_extension_versions where name = 'pgq' and version = %s",
        [__version__],
    ).fetchone()
    if available is not None:
        conn.execute("create extension pgq")
    else:
        install_plain(conn)


def install_plain(conn: psycopg.Connection, name: str = "pgq") -> None:
    """Run the script of an extension, as a user without file access would."""
    conn.execute((ROOT / "extension" / f"{name}--{__version__}.sql").read_bytes())


def install_pgmq(conn: psycopg.Connection) -> None:
    """Install pgq_pgmq, in the way that pgq was installed."""
    extension = conn.execute("select from pg_extension where extname = 'pgq'").fetchone()
    if extension is not None:
        conn.execute("create extension pgq_pgmq")
    else:
        install_plain(conn, "pgq_pgmq")


def check_invariants(conn: psycopg.Connection) -> list[str]:
    """Return the defects that pgq.check() finds."""
    found = conn.execute("select to_regprocedure('pgq.check()') is not null").fetchone()
    if found is None or not found[0]:
        return []
    return [str(row) for row in conn.execute("select * from pgq.check()").fetchall()]
