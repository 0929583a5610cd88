"""What the page asks of the database: reads of some milliseconds, and two ways to act."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from threading import BoundedSemaphore, Lock
from typing import Any, LiteralString

import psycopg
from psycopg.rows import DictRow, dict_row

from pgq.dashboard import _sql
from pgq.filters import F

__all__ = ["ACT_AT_MOST", "Database", "Row", "Session"]

Row = dict[str, Any]
_Conn = psycopg.Connection[DictRow]

#: Most dead letters that one press of a button moves.
ACT_AT_MOST = 10_000
#: Most queues, and most holders of leases, that the page shows.
MOST_QUEUES = 500
MOST_HOLDERS = 200

_READ_SECONDS = 10
_ACT_SECONDS = 60
_CONNECTIONS = 4
_SHORT = 400
_LONG = 100_000
_NEWEST = 200
_LOG = 5000
_CAUSES = 500


class Session:
    """A connection whose transactions read only, do not last, and leave nothing behind."""

    def __init__(self, dsn: str, *, writes: bool = False) -> None:
        # Behind a pooler the next transaction may have another session: nothing is prepared.
        self._conn = _Conn.connect(
            dsn,
            autocommit=True,
            row_factory=dict_row,
            prepare_threshold=None,
            connect_timeout=10,
            fallback_application_name="pgq dashboard",
        )
        self._conn.read_only = not writes
        self._seconds = _ACT_SECONDS if writes else _READ_SECONDS

    @property
    def usable(self) -> bool:
        return not self._conn.closed

    def rows(self, query: LiteralString, values: Any = None) -> list[Row]:
        """Return what a statement in a transaction of its own gives."""
        with self._conn.transaction():
            self._conn.execute(_sql.PATIENCE, [f"{self._seconds}s"])
            found = self._conn.execute(query, values).fetchall()
        return [{name: _finite(value) for name, value in row.items()} for row in found]

    def row(self, query: LiteralString, values: Any = None) -> Row | None:
        rows = self.rows(query, values)
        return rows[0] if rows else None

    def sample(self) -> Row:
        """Return how everything is doing now."""
        now = self.row(_sql.NOW)
        queues = self.rows(_sql.QUEUES, [MOST_QUEUES + 1])
        try:
            holders = self.rows(_sql.HOLDERS, [MOST_HOLDERS])
            refused = None
        except psycopg.errors.InsufficientPrivilege as error:
            holders, refused = [], error.diag.message_primary
        return {
            "at": None if now is None else now["extract"],
            "queues": queues[:MOST_QUEUES],
            "more_queues": len(queues) > MOST_QUEUES,
            "holders": holders,
            "holders_refused": refused,
        }

    def close(self) -> None:
        self._conn.close()


class Database:
    """Answers the questions of all browsers with a few connections, opened when needed."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._idle: list[Session] = []
        self._lock = Lock()
        self._closed = False
        self._places = BoundedSemaphore(_CONNECTIONS)

    def session(self) -> Session:
        """Open a connection for one who asks again and again."""
        return Session(self._dsn)

    def server(self) -> Row:
        """Return what answers: the database, its role, the versions."""
        with self._reader() as session:
            return session.row(_sql.SERVER) or {}

    def queue(self, name: str) -> Row:
        """Return the policy of a queue, its subscriptions and what comes next."""
        with self._reader() as session:
            coming = session.rows(_sql.NEXT, {"queue": name, "n": 20, "chars": _SHORT})
            subscriptions = session.rows(_sql.SUBSCRIPTIONS, [name])
            try:
                policy = session.row(_sql.POLICY, [name])
            except psycopg.errors.InsufficientPrivilege:
                policy = None
        return {"next": coming, "subscriptions": subscriptions, "policy": policy}

    def leases(self, queue: str, holder: str | None, client: str | None) -> Row:
        """Return the leases of one holder, those that run out first at the top."""
        values = {"queue": queue, "holder": holder, "client": client, "n": 200}
        with self._reader() as session:
            return {"leases": session.rows(_sql.LEASES, values)}

    def letters(
        self, queue: str | None, before: str | None = None, number: int | None = None
    ) -> Row:
        """Return a page of dead letters, the newest first, and why the newest ones died."""
        values = {"queue": queue, "before": before, "number": number, "n": 50, "chars": _SHORT}
        causes = values | {"before": None, "number": None, "n": _CAUSES}
        with self._reader() as session:
            letters = session.rows(_sql.LETTERS, values)
            return {
                "letters": letters,
                "more": len(letters) == values["n"],
                "causes": session.rows(_sql.CAUSES, causes) if before is None else None,
                "causes_of": _CAUSES,
            }

    def letter(self, queue: str, id: int) -> Row | None:
        """Return all of a dead letter."""
        with self._reader() as session:
            return session.row(_sql.LETTER, {"queue": queue, "id": id, "chars": _LONG})

    def message(self, id: int) -> Row:
        """Return a message, if the log still has it, and what happened to it."""
        with self._reader() as session:
            history = session.rows(_sql.HISTORY, [id])
            refused = message = None
            try:
                message = session.row(_sql.MESSAGE, {"id": id, "chars": _LONG})
            except psycopg.errors.InsufficientPrivilege as error:
                refused = error.diag.message_primary
        return {"id": str(id), "message": message, "refused": refused, "history": history}

    def explore(self, queue: str, filter: str) -> Row:
        """Return what a filter means for a queue, and which of its newest messages match."""
        values = {"queue": queue, "filter": filter, "n": _NEWEST, "log": _LOG, "chars": _SHORT}
        with self._reader() as session:
            explained = session.rows(_sql.EXPLAIN, values)
            try:
                tried = session.rows(_sql.NEWEST, values)
            except psycopg.errors.InsufficientPrivilege:
                tried = []
            of = "newest" if tried else "next"
            tried = tried or session.rows(_sql.COMING, values)
        return {
            "explained": explained,
            "of": of,
            "tested": len(tried),
            "matched": sum(row["matches"] for row in tried),
            "messages": sorted(tried, key=lambda row: not row["matches"])[:50],
        }

    def act(self, what: str, queue: str, ids: list[int] | None) -> int:
        """Replay or discard dead letters, those named or the oldest; return how many."""
        statements: Mapping[str, LiteralString] = {
            "replay": _sql.REPLAY,
            "discard": _sql.DISCARD,
        }
        named = None if ids is None else json.dumps(F.msg.id.in_(ids).document)
        session = Session(self._dsn, writes=True)
        try:
            row = session.row(statements[what], {"queue": queue, "filter": named, "n": ACT_AT_MOST})
        finally:
            session.close()
        return 0 if row is None else int(row[what])

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            self._closed = True
            for session in self._idle:
                session.close()
            self._idle.clear()

    @contextmanager
    def _reader(self) -> Iterator[Session]:
        """Lend a connection: one that has just worked, or a new one."""
        with self._places:
            with self._lock:
                session = self._idle.pop() if self._idle else None
            if session is not None and not _answers(session):
                session = None
            session = session or Session(self._dsn)
            try:
                yield session
            finally:
                with self._lock:
                    if self._closed:
                        session.close()
                    elif session.usable:
                        self._idle.append(session)


def _finite(value: Any) -> Any:
    """Return a value that JSON has: a moment that never comes is none."""
    return None if isinstance(value, float) and not isfinite(value) else value


def _answers(session: Session) -> bool:
    """Whether the server is still there; it may have been restarted since the last question."""
    try:
        session.rows("select 1")
    except (psycopg.OperationalError, psycopg.InterfaceError):
        session.close()
    return session.usable
