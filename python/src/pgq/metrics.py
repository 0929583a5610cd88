"""A reader of ``pgq.metrics()`` that survives restarts of the server."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.rows import class_row

from pgq._shared import sql
from pgq._shared.log import log, reason

__all__ = ["Metric", "MetricsReader"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One value: the columns of ``pgq.metrics()``."""

    name: str
    kind: str
    labels: dict[str, str]
    value: float
    help: str


class MetricsReader:
    """Reads the metrics of a database, on its own connection; one call runs at a time.

    The reader reconnects after errors. A call that takes longer than the timeout fails.
    """

    def __init__(self, dsn: str = "", *, timeout: timedelta = timedelta(seconds=5)) -> None:
        if timeout < timedelta(milliseconds=1):
            raise ValueError("timeout must be at least a millisecond")
        self._dsn = dsn
        self._timeout = timeout
        self._lock = threading.Lock()
        self._conn: psycopg.Connection[Any] | None = None
        # None before the first attempt.
        self._worked: bool | None = None
        #: How many seconds the last attempt took.
        self.seconds = 0.0

    @property
    def up(self) -> bool:
        """Whether the last attempt succeeded."""
        return self._worked is True

    def read(self) -> list[Metric]:
        """Return the metrics, or raise `psycopg.Error`."""
        with self._lock:
            began = time.monotonic()
            try:
                metrics = self._read()
            except psycopg.Error as error:
                self._close()
                self._log_change(error)
                raise
            finally:
                self.seconds = time.monotonic() - began
            self._log_change(None)
            return metrics

    def try_read(self) -> list[Metric]:
        """Return the metrics; after an error return an empty list, and `up` is False."""
        try:
            return self.read()
        except psycopg.Error:
            return []

    def names(self) -> list[tuple[str, str, str]]:
        """Return name, kind and meaning of every metric."""
        with self._lock, self._connect() as conn:
            return conn.execute(sql.METRIC_NAMES).fetchall()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _read(self) -> list[Metric]:
        if self._conn is not None:
            try:
                return self._query(self._conn)
            except psycopg.Error:
                if not self._conn.broken:
                    raise
                self._close()  # the server was restarted since the last time
        self._conn = self._connect()
        return self._query(self._conn)

    def _connect(self) -> psycopg.Connection[Any]:
        seconds = max(2, round(self._timeout.total_seconds()))
        return psycopg.connect(
            self._dsn,
            autocommit=True,
            prepare_threshold=None,
            fallback_application_name="pgq metrics",
            connect_timeout=seconds,
            tcp_user_timeout=seconds * 1000,
        )

    def _query(self, conn: psycopg.Connection[Any]) -> list[Metric]:
        milliseconds = self._timeout // timedelta(milliseconds=1)
        # For this transaction only: behind a pooler other clients share the session.
        with conn.transaction(), conn.cursor(row_factory=class_row(Metric)) as cursor:
            conn.execute(sql.STATEMENT_TIMEOUT, (str(milliseconds),))
            return cursor.execute(sql.METRICS).fetchall()

    def _close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _log_change(self, error: psycopg.Error | None) -> None:
        if error is not None and self._worked is not False:
            log(
                "WARNING",
                "metrics_unavailable",
                "the metrics cannot be read: %s",
                reason(error),
                sqlstate=error.sqlstate,
            )
        elif error is None and self._worked is False:
            log("INFO", "metrics_available", "the metrics can be read again")
        self._worked = error is None
