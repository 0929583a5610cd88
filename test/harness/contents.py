"""The contents of pgq's tables, for tests that nothing has changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql


def contents(conn: psycopg.Connection) -> dict[str, tuple[int, str | None]]:
    """Return the number of rows and a hash of all of them, for each table."""
    tables = conn.execute(
        "select relname from pg_class"
        " where relnamespace = 'pgq'::regnamespace and relkind = 'r' order by 1"
    ).fetchall()
    found = {}
    for (table,) in tables:
        # Hashed row by row: some rows are too large to be put together.
        row = conn.execute(
            sql.SQL(
                "select count(*), md5(string_agg(hash, '' order by hash))"
                " from (select md5(t::text) as hash from {} t) h"
            ).format(sql.Identifier("pgq", table))
        ).fetchone()
        assert row is not None
        found[table] = (row[0], row[1])
    return found


@contextmanager
def unchanged(conn: psycopg.Connection) -> Iterator[None]:
    """Check that the tables hold the same at the end of the block as at its beginning."""
    before = contents(conn)
    yield
    after = contents(conn)
    assert {name: after[name] for name in after if after[name] != before[name]} == {}
