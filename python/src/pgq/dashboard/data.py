"""The queries of the page, which take some milliseconds, and the verbs of operators."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import isfinite
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from pgq.dashboard import _sql
from pgq.dashboard.find import Wanted

__all__ = ["Database", "Row", "Session"]

Row = dict[str, Any]
_Conn = psycopg.AsyncConnection[Any]

EVERYTHING = Wanted()
#: The maximum numbers of queues and of lease holders that the page shows.
MOST_QUEUES = 500
MOST_HOLDERS = 200

_READ_SECONDS = 10
_ACT_SECONDS = 60
_CONNECTIONS = 4
_SHORT = 400
_LONG = 100_000
_NEWEST = 200
_LOG = 5000
_CAUSES = 2000
_LISTED = 100
# How many messages a text search scans: it has no index.
_SCANNED = 5000


class Session:
    """A borrowed connection. Its settings end with each transaction."""

    def __init__(self, conn: _Conn) -> None:
        self._conn = conn

    async def rows(
        self, query: LiteralString, values: Any = None, *, writes: bool = False
    ) -> list[Row]:
        """Return the rows of a statement, in its own transaction; read-only unless `writes`."""
        conn = self._conn
        seconds = _ACT_SECONDS if writes else _READ_SECONDS
        only = "off" if writes else "on"
        # Prepare nothing: behind a pooler the next transaction may have another session.
        async with conn.transaction(), conn.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(_sql.BEGIN, [f"{seconds}s", only], prepare=False)
            await cursor.execute(query, values, prepare=False)
            found = await cursor.fetchall()
        return [{name: _finite(value) for name, value in row.items()} for row in found]

    async def row(
        self, query: LiteralString, values: Any = None, *, writes: bool = False
    ) -> Row | None:
        rows = await self.rows(query, values, writes=writes)
        return rows[0] if rows else None

    async def act(
        self, statement: LiteralString, values: Row, *, writes: bool
    ) -> tuple[int | bool | None, list[str]]:
        """Run a verb; return its result and the notices of the server."""
        notices: list[str] = []

        def hear(diagnostic: psycopg.errors.Diagnostic) -> None:
            notices.append(diagnostic.message_primary or "")

        self._conn.add_notice_handler(hear)
        try:
            row = await self.row(statement, values, writes=writes)
        finally:
            self._conn.remove_notice_handler(hear)
        return (None if row is None else row["done"]), notices

    async def allowed(self, query: LiteralString, values: Any = None) -> list[Row] | None:
        """Return the rows of a statement; None if the role lacks the right."""
        try:
            return await self.rows(query, values)
        except psycopg.errors.InsufficientPrivilege:
            return None


class Database:
    """Runs the queries of all browsers on a few connections.

    The connections come from a pool. Without a pool they are opened when needed, and closed when no
    browser is connected.
    """

    def __init__(self, source: str | AsyncConnectionPool[Any]) -> None:
        if not isinstance(source, str | AsyncConnectionPool):
            raise TypeError(
                f"the page needs a connection string or an AsyncConnectionPool, not {source!r}"
            )
        self._source = source
        self._idle: list[_Conn] = []
        self._closed = False
        self._slots = asyncio.Semaphore(_CONNECTIONS)

    async def server(self) -> Row:
        """Return the name of the database, the role, and the versions."""
        async with self._reader() as session:
            return await session.row(_sql.SERVER) or {}

    async def sample(self) -> Row:
        """Return the current state: queues, holders of leases, findings."""
        async with self._reader() as session:
            now = await session.row(_sql.NOW)
            queues = await session.rows(_sql.QUEUES, [MOST_QUEUES + 1])
            refused = None
            try:
                holders = await session.rows(_sql.HOLDERS, [MOST_HOLDERS])
            except psycopg.errors.InsufficientPrivilege as error:
                holders, refused = [], error.diag.message_primary
            findings = await session.rows(_sql.FINDINGS)
        return {
            "at": None if now is None else now["extract"],
            "queues": queues[:MOST_QUEUES],
            "more_queues": len(queues) > MOST_QUEUES,
            "holders": holders,
            "holders_refused": refused,
            "findings": findings,
        }

    async def traffic(self) -> list[Row]:
        """Return the recorded minutes of the last hour, of all queues."""
        async with self._reader() as session:
            return await session.rows(_sql.TRAFFIC)

    async def queue(self, name: str) -> Row:
        """Return the policy of a queue, its limits, subscriptions and next messages."""
        async with self._reader() as session:
            coming = await session.rows(_sql.NEXT, {"queue": name, "n": 20, "chars": _SHORT})
            subscriptions = await session.rows(_sql.SUBSCRIPTIONS, [name])
            try:
                policy = await session.row(_sql.POLICY, [name])
            except psycopg.errors.InsufficientPrivilege:
                policy = None
            limits = await session.allowed(_sql.LIMITS_OF, [name])
        return {
            "next": coming,
            "subscriptions": subscriptions,
            "policy": policy,
            "limits": limits[0] if limits else None,
        }

    async def leases(self, queue: str, holder: str | None, client: str | None) -> Row:
        """Return the leases of one holder, those that end first at the top."""
        values = {"queue": queue, "holder": holder, "client": client, "n": 200}
        async with self._reader() as session:
            return {"leases": await session.rows(_sql.LEASES, values)}

    async def letters(
        self,
        queue: str | None,
        before: str | None = None,
        number: int | None = None,
        wanted: Wanted = EVERYTHING,
        cause: Row | None = None,
    ) -> Row:
        """Return a page of dead letters, the newest first, and the causes of the newest ones."""
        values = {
            "queue": queue,
            "before": before,
            "number": number,
            "filter": _document(wanted.filter),
            "text": wanted.text,
            "cause": _document(cause),
            "n": 50,
            "chars": _SHORT,
        }
        async with self._reader() as session:
            letters = await session.rows(_sql.LETTERS, values)
            causes = None
            if before is None:
                causes = await session.rows(_sql.CAUSES, {"queue": queue, "n": _CAUSES})
        return {
            "letters": letters,
            "more": len(letters) == values["n"],
            "filter": wanted.filter,
            "causes": causes,
            "causes_of": _CAUSES,
        }

    async def messages(self, queue: str, state: str, wanted: Wanted) -> Row:
        """Return messages of a queue that are in one state, in the order of pgq.messages."""
        n = _LISTED
        values = {
            "queue": queue,
            "state": state,
            "filter": _document(wanted.filter),
            "text": wanted.text,
            "scan": n + 1 if wanted.text is None else _SCANNED,
            "n": n + 1,
            "chars": _SHORT,
        }
        async with self._reader() as session:
            rows = await session.rows(_sql.MESSAGES, values)
        return {"messages": rows[:n], "more": len(rows) > n, "scanned": _SCANNED}

    async def chart(self, queue: str, hours: int) -> Row:
        """Return the recorded minutes of a queue, and the server's time."""
        async with self._reader() as session:
            now = await session.row(_sql.NOW)
            minutes = await session.rows(_sql.MINUTES, {"queue": queue, "hours": hours})
        return {"now": now and now["extract"], "minutes": minutes}

    async def schedules(self) -> Row:
        """Return the schedules, the next run first; None if the role may not read them."""
        async with self._reader() as session:
            return {"schedules": await session.allowed(_sql.SCHEDULES)}

    async def consumers(self) -> Row:
        """Return listeners, limits, subscriptions and relays; None where the role lacks a right."""
        async with self._reader() as session:
            return {
                "listeners": await session.allowed(_sql.LISTENERS),
                "limits": await session.allowed(_sql.LIMITS),
                "subscribers": await session.allowed(_sql.SUBSCRIBERS),
                "relays": await session.allowed(_sql.RELAYS),
            }

    async def letter(self, queue: str, id: int) -> Row | None:
        """Return a dead letter with all its columns."""
        async with self._reader() as session:
            return await session.row(_sql.LETTER, {"queue": queue, "id": id, "chars": _LONG})

    async def message(self, id: int) -> Row:
        """Return a message, if the log still has it, and its events."""
        async with self._reader() as session:
            history = await session.rows(_sql.HISTORY, [id])
            refused = message = None
            try:
                message = await session.row(_sql.MESSAGE, {"id": id, "chars": _LONG})
            except psycopg.errors.InsufficientPrivilege as error:
                refused = error.diag.message_primary
        return {"id": str(id), "message": message, "refused": refused, "history": history}

    async def explore(self, queue: str, filter: str) -> Row:
        """Return how a filter is evaluated on a queue, and which of its newest messages match."""
        values = {"queue": queue, "filter": filter, "n": _NEWEST, "log": _LOG, "chars": _SHORT}
        async with self._reader() as session:
            explained = await session.rows(_sql.EXPLAIN, values)
            try:
                tried = await session.rows(_sql.NEWEST, values)
            except psycopg.errors.InsufficientPrivilege:
                tried = []
            of = "newest" if tried else "next"
            tried = tried or await session.rows(_sql.COMING, values)
        return {
            "explained": explained,
            "of": of,
            "tested": len(tried),
            "matched": sum(row["matches"] for row in tried),
            "messages": sorted(tried, key=lambda row: not row["matches"])[:50],
        }

    async def act(
        self, statement: LiteralString, values: Row
    ) -> tuple[int | bool | None, list[str]]:
        """Run a verb; return its result and the notices of the server.

        A dry run has a read-only transaction, so it cannot change anything.
        """
        async with self._reader() as session:
            return await session.act(statement, values, writes=not values.get("dry_run"))

    async def close(self) -> None:
        """Close the connections for good; a pool belongs to the caller and stays open."""
        self._closed = True
        await self.close_idle()

    async def close_idle(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            await self._idle.pop().close()

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[Session]:
        """Yield a connection: one of the pool, an idle one that works, or a new one."""
        if isinstance(self._source, AsyncConnectionPool):
            async with self._source.connection(timeout=_READ_SECONDS) as conn:
                yield Session(conn)
            return
        async with self._slots:
            conn = self._idle.pop() if self._idle else None
            try:
                if conn is None or not await _answers(conn):
                    conn = await _connect(self._source)
                yield Session(conn)
            finally:
                # In `finally`, because the request may be cancelled while it waits.
                if conn is not None and self._closed:
                    await conn.close()
                elif conn is not None and not conn.closed:
                    self._idle.append(conn)


async def _connect(dsn: str) -> _Conn:
    return await psycopg.AsyncConnection.connect(
        dsn,
        autocommit=True,
        connect_timeout=10,
        fallback_application_name="pgq dashboard",
    )


async def _answers(conn: _Conn) -> bool:
    """Whether the connection still works: the server may have been restarted."""
    try:
        await conn.execute("select", prepare=False)
    except (psycopg.OperationalError, psycopg.InterfaceError):
        await conn.close()
    return not conn.closed


def _document(filter: Row | None) -> str | None:
    return None if filter is None else json.dumps(filter)


def _finite(value: Any) -> Any:
    """Return None for infinity, which JSON does not have; any other value unchanged."""
    return None if isinstance(value, float) and not isfinite(value) else value
