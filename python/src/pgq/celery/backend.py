"""A result backend of Celery: a table in the database of the queues."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import psycopg
from celery.backends.base import KeyValueStoreBackend
from psycopg.errors import UndefinedTable
from psycopg_pool import ConnectionPool

from pgq.celery._url import dsn

__all__ = ["Backend"]

_CREATE = """
create schema if not exists pgq_celery;
create table if not exists pgq_celery.result (
    key        text not null constraint result_pkey primary key,
    value      bytea not null,
    expires_at timestamptz,
    state      text
);
create index if not exists result_expires_idx on pgq_celery.result (expires_at)
    where expires_at is not null
"""
_GET = """
select key, value from pgq_celery.result
 where key = any (%s) and (expires_at is null or expires_at > clock_timestamp())
"""
# A retry may succeed before the state RETRY of the first attempt is stored: keep SUCCESS.
_SET = """
insert into pgq_celery.result values (%s, %s, clock_timestamp() + make_interval(secs => %s), %s)
on conflict (key) do update
set value = excluded.value, expires_at = excluded.expires_at, state = excluded.state
where result.state is distinct from 'SUCCESS'
"""
_INCREMENT = """
insert into pgq_celery.result values (%s, '1')
on conflict (key) do update
set value = convert_to((convert_from(result.value, 'utf8')::bigint + 1)::text, 'utf8')
returning convert_from(value, 'utf8')::bigint
"""
_EXPIRE = """
update pgq_celery.result set expires_at = clock_timestamp() + make_interval(secs => %s)
 where key = %s
"""
_DELETE = "delete from pgq_celery.result where key = %s"
_CLEAN = "delete from pgq_celery.result where expires_at <= clock_timestamp()"


class Backend(KeyValueStoreBackend):
    """The result backend ``pgq://``; ``celery beat`` or a call of `cleanup` deletes old results."""

    supports_autoexpire = False
    persistent = True
    implements_incr = True

    def __init__(self, *args: Any, url: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, url=url, **kwargs)
        self._pool: ConnectionPool[Any] | None = None
        self._process = 0

    def _run(self, statement: Any, *parameters: Any) -> list[Any]:
        if self._pool is None or self._process != os.getpid():  # a forked process opens its own
            self._process = os.getpid()
            self._pool = ConnectionPool(
                dsn(self.url or ""),
                min_size=1,
                max_size=4,
                open=True,
                # A server that was restarted loses no result.
                check=ConnectionPool.check_connection,
                kwargs={"autocommit": True, "fallback_application_name": "pgq results"},
                name="pgq-results",
            )
        with self._pool.connection() as conn:
            try:
                cursor = conn.execute(statement, parameters)
            except UndefinedTable:
                _create(conn)
                cursor = conn.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def exception_safe_to_retry(self, exc: BaseException) -> bool:
        """Return whether `result_backend_always_retry` tries again."""
        return isinstance(exc, psycopg.OperationalError)

    def get(self, key: Any) -> bytes | None:
        """Return a value."""
        return self.mget([key])[0]

    def mget(self, keys: Iterable[Any]) -> list[bytes | None]:
        """Return the values of keys, in their order."""
        names = [_text(key) for key in keys]
        found = {key: bytes(value) for key, value in self._run(_GET, names)}
        return [found.get(name) for name in names]

    def set(self, key: Any, value: Any) -> None:
        """Store a value for the time that Celery's setting `result_expires` allows."""
        self._set_with_state(key, value, None)

    def _set_with_state(self, key: Any, value: Any, state: str | None) -> None:
        content = value.encode() if isinstance(value, str) else value
        self._run(_SET, _text(key), content, self.expires, state)

    def delete(self, key: Any) -> None:
        """Remove a value."""
        self._run(_DELETE, _text(key))

    def incr(self, key: Any) -> int:
        """Increment a counter and return it."""
        return int(self._run(_INCREMENT, _text(key))[0][0])

    def expire(self, key: Any, value: float) -> None:
        """Set the time after which a value expires, in seconds."""
        self._run(_EXPIRE, value, _text(key))

    def cleanup(self) -> None:
        """Delete expired values."""
        self._run(_CLEAN)


def _create(conn: psycopg.Connection[Any]) -> None:
    with conn.transaction():
        # Two processes may create the table at once, and IF NOT EXISTS does not wait.
        conn.execute("select pg_advisory_xact_lock(hashtext('pgq_celery'))")
        conn.execute(_CREATE)


def _text(key: Any) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)
