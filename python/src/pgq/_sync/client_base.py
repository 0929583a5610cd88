# Written by unasync.py from _async/client_base.py: change that one.

"""The connection below a client, and how statements are run on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import Connection, Cursor
from psycopg.rows import dict_row, scalar_row
from psycopg.types.json import Jsonb

from pgq._shared import sql, trace
from pgq._shared.adapters import leaves_text
from pgq._shared.jsonb import FastJsonbLoader, jsonb
from pgq._shared.log import notice
from pgq._sync.lender import Lender, borrow
from pgq.errors import translated
from pgq.filters import Filter, document
from pgq.payloads.serializers import Payloads
from pgq.rows import Row, row_of

__all__ = ["Conn", "KeepingConnection", "Statements", "run"]

T = TypeVar("T")
R = TypeVar("R", bound=Row)
Conn = Connection[Any]

# A cursor with a result of this many rows is not kept: it would keep their memory.
_LONG_RESULT = 1000


class KeepingConnection(Connection[Any]):
    """A connection that keeps its cursors.

    A call with a new cursor takes 1.3 times the client CPU of one with a kept cursor.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.adapters.register_loader("jsonb", FastJsonbLoader)
        self.kept: dict[Any, Cursor[Any]] = {}


class Statements:
    """Runs statements of pgq on a connection that the caller has lent, and never commits.

    The classes of the modules ``client_*`` derive from this class, and `Client` from them.
    """

    #: How payloads are checked and written.
    _payloads = Payloads()
    #: The connection whose adapters encode values; None for psycopg's global adapters.
    _context: Conn | None = None
    #: Runs the statements if the connection is not a psycopg connection.
    _lender: Lender | None = None

    def __init__(
        self,
        conn: Any,
        *,
        types: Mapping[str, Any] | None = None,
        serializer: str | None = None,
    ) -> None:
        self._payloads = Payloads(types or {}, serializer)
        self._lender = None if hasattr(conn, "adapters") else borrow(conn)
        if self._lender is not None:
            return
        if not hasattr(conn, "adapters"):
            raise TypeError(
                "Client borrows a connection of psycopg, SQLAlchemy or asyncpg, not"
                f" {type(conn).__name__}: for a connection string there is pgq.connect"
            )
        self._conn: Conn = conn
        self._context = conn
        self._loader = FastJsonbLoader if leaves_text(conn) else None

    def _jsonb(self, value: Any) -> Jsonb:
        """Return a value to be sent as JSON."""
        return jsonb(value, self._context)

    def _optional(self, value: Any) -> Jsonb | None:
        return None if value is None else self._jsonb(value)

    def _filter(self, filter: Filter) -> Jsonb | None:
        return self._optional(document(filter))

    def _headers(self, headers: dict[str, Any] | None) -> Jsonb:
        return self._jsonb(trace.inject(headers))

    @contextmanager
    def _session(self) -> Iterator[Conn]:
        """Yield the connection for one statement."""
        conn = self._conn if self._lender is None else self._lender.psycopg()
        if conn is None:
            raise NotImplementedError("COPY needs a connection of psycopg: use publish_batch")
        yield conn

    @contextmanager
    def _unit(self) -> Iterator[Conn]:
        """Yield the connection for several statements, all or none of which take effect."""
        with self._session() as conn:
            if not conn.autocommit:
                conn.execute(sql.PING)  # begins the transaction that the block is a part of
            with conn.transaction():
                yield conn

    def _now(self, conn: Conn) -> datetime:
        row = (conn.execute(sql.NOW)).fetchone()
        now: datetime = row[0] if row else datetime.min
        return now

    def fetch_rows(
        self,
        statement: LiteralString,
        *parameters: Any,
        factory: Any = None,
        repeatable: bool = False,
    ) -> list[Any]:
        """Run a statement and return its rows, made by the factory.

        :param statement: the statement, with ``%s`` for parameters.
        :param factory: a row factory of psycopg; None for tuples.
        :param repeatable: the statement may run twice, so that a pooled client can repeat it after
            a lost connection.
        :param parameters: their values.

        >>> client.fetch_rows("select 1")
        [(1,)]
        """
        if self._lender is None:
            conn, loader = self._conn, self._loader
        else:
            lent = self._lender.psycopg()
            if lent is None:
                return self._lender.rows(statement, parameters, factory)
            conn, loader = lent, FastJsonbLoader
        conn.add_notice_handler(notice)
        try:
            return run(conn, statement, parameters, factory, loader)
        finally:
            conn.remove_notice_handler(notice)

    def fetch_dicts(self, statement: LiteralString, *parameters: Any) -> list[Any]:
        """Run a statement that may run twice, and return its rows as dicts.

        :param statement: the statement, with ``%s`` for parameters.
        :param parameters: their values.

        >>> client.fetch_dicts("select 1 as one")
        [{'one': 1}]
        """
        return self.fetch_rows(statement, *parameters, factory=dict_row, repeatable=True)

    def fetch_records(self, kind: type[R], statement: LiteralString, *parameters: Any) -> list[R]:
        """Run a statement that may run twice, and return its rows as objects of this kind.

        :param kind: a class of `pgq.rows`.
        :param statement: the statement, with ``%s`` for parameters.
        :param parameters: their values.

        >>> client.fetch_records(Finding, "select * from pgq.findings()")
        []
        """
        return self.fetch_rows(statement, *parameters, factory=row_of(kind), repeatable=True)

    def fetch_value(self, kind: type[T], statement: LiteralString, *parameters: Any) -> T:
        """Run a statement that returns one value of this type, and return the value.

        :param kind: the type of the value.
        :param statement: the statement, with ``%s`` for parameters.
        :param parameters: their values.

        >>> client.fetch_value(int, "select 1")
        1
        """
        rows = self.fetch_rows(statement, *parameters, factory=scalar_row)
        value: T = rows[0]
        return value


def run(
    conn: Conn,
    statement: LiteralString,
    parameters: Sequence[Any],
    factory: Any,
    loader: type[FastJsonbLoader] | None = None,
) -> list[Any]:
    kept = conn.kept if isinstance(conn, KeepingConnection) else {}
    cursor = kept.pop(factory, None) or conn.cursor(row_factory=factory or conn.row_factory)
    if loader is not None:
        cursor.adapters.register_loader("jsonb", loader)
    try:
        cursor.execute(statement, parameters)
        rows: list[Any] = cursor.fetchall()
    except psycopg.Error as error:
        if known := translated(error):
            raise known from error
        raise
    if len(rows) < _LONG_RESULT:
        kept[factory] = cursor
    return rows
