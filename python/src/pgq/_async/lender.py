"""Connections of SQLAlchemy and asyncpg, on which a client runs its statements."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import dict_row, scalar_row
from psycopg.types.json import Jsonb

from pgq._shared.aio import driver, lower
from pgq.encoding import dumps
from pgq.errors import by_sqlstate, is_ours

__all__ = ["AsyncLender", "borrow"]

_JSONB = 3802

# Shows whether the driver encodes and decodes JSON itself.
_PROBE: LiteralString = "select (%s::jsonb)::text, '\"x\"'::jsonb"


class AsyncLender:
    """Runs statements on a connection of SQLAlchemy or asyncpg.

    :param connection: a function that returns the underlying psycopg connection; None if the driver
        is not psycopg.
    :param fetch: a function that runs a statement; it returns the names and types of the columns,
        and the rows.
    """

    def __init__(self, connection: Callable[[], Any] | None, fetch: Callable[..., Any]) -> None:
        self._connection = connection
        self._fetch = fetch
        self._codecs: tuple[bool, bool] | None = None

    async def psycopg(self) -> AsyncConnection[Any] | None:
        """Return the underlying psycopg connection; None if the driver is not psycopg."""
        return None if self._connection is None else await self._connection()

    async def rows(self, statement: str, parameters: Sequence[Any], factory: Any) -> list[Any]:
        """Run a statement and return its rows, made by the factory."""
        try:
            writes, reads = self._codecs or await self._probe()
            values = [_value(value, writes) for value in parameters]
            columns, rows = await self._fetch(statement, values)
        except Exception as error:
            if known := _translated(error):
                raise known from error
            raise
        if not reads:
            texts = [i for i, (_, kind) in enumerate(columns) if kind == _JSONB]
            rows = [_loaded(row, texts) for row in rows] if texts else rows
        if factory is scalar_row:
            return [row[0] for row in rows]
        if factory is dict_row:
            return [dict(zip([n for n, _ in columns], row, strict=True)) for row in rows]
        if factory is None:
            return [tuple(row) for row in rows]
        named = SimpleNamespace(description=[SimpleNamespace(name=name) for name, _ in columns])
        return list(map(factory(named), rows))

    async def _probe(self) -> tuple[bool, bool]:
        """Return whether the driver encodes JSON parameters, and whether it decodes jsonb."""
        _, [(written, read)] = await self._fetch(_PROBE, ['"x"'])
        self._codecs = written != '"x"', read == "x"
        return self._codecs


def borrow(lent: Any) -> AsyncLender | None:
    """Return a lender for a session or connection; None if its library is unknown."""
    homes = {kind.__module__.partition(".")[0] for kind in type(lent).__mro__}
    if "sqlalchemy" not in homes:
        own = driver(lent)
        return None if own is None else AsyncLender(None, own)
    session = hasattr(lent, "flush")

    async def connection() -> Any:
        if session:
            return await lent.connection()
        if not lent.in_transaction():
            await lent.begin()  # as SQLAlchemy does before its first statement
        return lent

    async def psycopg() -> Any:
        return await lower(await connection())

    async def fetch(statement: str, values: list[Any]) -> tuple[list[Any], list[Any]]:
        conn = await connection()
        if conn.dialect.paramstyle == "numeric_dollar":
            statement = numbered(statement)
        result = await conn.exec_driver_sql(statement, tuple(values))
        columns = [(column[0], column[1]) for column in result.cursor.description]
        return columns, result.fetchall()

    bind = lent.get_bind() if session else lent
    ours = bind.dialect.driver in ("psycopg", "psycopg_async")
    return AsyncLender(psycopg if ours else None, fetch)


def numbered(statement: str) -> str:
    """Return a statement with $1, $2, ... for its parameters."""
    parts = statement.split("%s")
    marks = [f"{part}${i}" for i, part in enumerate(parts[:-1], 1)]
    return "".join(marks) + parts[-1]


def _value(value: Any, written: bool) -> Any:
    if isinstance(value, Jsonb):
        return value.obj if written else (value.dumps or dumps)(value.obj)
    return value


def _loaded(row: Sequence[Any], texts: list[int]) -> list[Any]:
    values = list(row)
    for i in texts:
        values[i] = None if values[i] is None else json.loads(values[i])
    return values


def _translated(error: BaseException | None) -> Exception | None:
    """Return pgq's exception for a server error, which the library may have wrapped."""
    seen: list[BaseException | None] = []
    while error is not None and error not in seen:
        seen.append(error)
        diagnostic = getattr(error, "diag", None)
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        message = getattr(error, "message", None) or getattr(diagnostic, "message_primary", None)
        if state is not None and message is not None:
            return by_sqlstate(
                state,
                message,
                getattr(error, "detail", None) or getattr(diagnostic, "message_detail", None),
                getattr(error, "hint", None) or getattr(diagnostic, "message_hint", None),
                ours=is_ours(
                    getattr(error, "server_source_function", None)
                    or getattr(diagnostic, "source_function", None),
                    getattr(error, "context", None) or getattr(diagnostic, "context", None),
                ),
            )
        error = getattr(error, "orig", None) or error.__cause__
    return None
