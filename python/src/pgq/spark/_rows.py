"""Rows of PostgreSQL as Arrow batches, and the connections that read them."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pgq.errors import LeaseLost, PgqError, translated

# The columns of Spark: the type, whether it can be null, and its SQL expression.
COLUMNS: dict[str, tuple[DataType, bool, LiteralString]] = {
    "id": (LongType(), False, "id"),
    "topic": (StringType(), False, "topic"),
    "key": (StringType(), True, "group_key"),
    "value": (StringType(), False, "payload"),
    "headers": (StringType(), False, "headers"),
    "timestamp": (TimestampType(), False, "published_at"),
    "priority": (IntegerType(), False, "priority"),
    "attempt": (IntegerType(), False, "attempt"),
    "sender": (StringType(), True, "sender"),
    "recipient": (StringType(), True, "recipient"),
    "reply_to": (StringType(), True, "reply_to"),
    "correlation_id": (StringType(), True, "correlation_id"),
    "expires_at": (TimestampType(), True, "case when isfinite(expires_at) then expires_at end"),
    "dedup_key": (StringType(), True, "dedup_key"),
    "deliver_at": (StringType(), True, "pgq._moment(deliver_at)"),
    "publisher": (StringType(), True, "publisher"),
}
# The planner cannot know that there are few ranges of ids, each with many messages.
PLAN: Final = ", ".join(
    f"set_config('{name}', '{value}', true)"
    for name, value in {
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "enable_material": "off",
        # Join in the order of the view: with stale statistics the planner reads all messages
        # between the first range and the last, and looks up the range of each.
        "join_collapse_limit": "1",
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
    }.items()
)
# A batch of 4 MB takes the driver 12 % less CPU than one of 16 MB, its default: fewer cache misses.
BATCH: Final = {"adbc.postgresql.batch_size_hint_bytes": str(4 * 1024 * 1024)}
Known = dict[str, int | None]
T = TypeVar("T")
MORE = ("sender", "recipient", "reply_to", "correlation_id", "expires_at")
# Columns that only the log has, for the archive.
LOG = ("dedup_key", "deliver_at", "publisher")


class ServerError(PgqError):
    """Spark cannot use the database; the message has the reason."""


def schema_of(names: list[str]) -> StructType:
    """Return the schema of these columns."""
    return StructType([StructField(name, *COLUMNS[name][:2]) for name in names])


def column_names(*, headers: bool = True, more: bool = False, log: bool = False) -> list[str]:
    """Return the columns that the options ask for."""
    left_out = (*([] if headers else ["headers"]), *(() if more else MORE), *(() if log else LOG))
    return [name for name in COLUMNS if name not in left_out]


def connect(dsn: str, name: str) -> psycopg.Connection[Any]:
    """Open an autocommit connection to a database that has pgq."""
    try:
        address = make_conninfo(dsn, application_name=name)
        return psycopg.connect(address, autocommit=True, prepare_threshold=None)
    except psycopg.OperationalError as error:
        raise ServerError(
            f"pgq cannot connect to PostgreSQL: {str(error).strip()}",
            hint="The option dsn, or PGQ_DSN, is a connection string of libpq.",
        ) from None


def ask(conn: psycopg.Connection[Any], query: LiteralString, *values: Any) -> list[Any]:
    """Run a statement and return its rows; raise pgq's exceptions, which have hints."""
    try:
        cursor = conn.execute(query, values or None)
        return cursor.fetchall() if cursor.description is not None else []
    except (psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName) as error:
        raise ServerError(
            f"this database has no pgq, or one that is too old: {error.diag.message_primary}",
            hint="CREATE EXTENSION pgq, or ALTER EXTENSION pgq UPDATE.",
        ) from None
    except psycopg.Error as error:
        known = translated(error)
        if known is None:
            raise
        raise known from None


class Server:
    """A connection that is opened again when it breaks, for statements that may run twice."""

    def __init__(self, dsn: str, name: str) -> None:
        self.dsn = dsn
        self.name = name
        self._conn: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()

    def ask(self, query: LiteralString, *values: Any) -> list[Any]:
        """Run a statement; if the connection breaks, try up to five times in ten seconds."""
        return self.run(lambda conn: ask(conn, query, *values))

    def run(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Call a function with the connection; if that breaks, call it up to five times."""
        with self._lock:
            for attempt in range(1, 6):
                try:
                    return work(self.connection())
                except Exception as error:
                    broken = self._conn is None or self._conn.broken or self._conn.closed
                    if not broken or attempt == 5 or isinstance(error, LeaseLost):
                        raise
                    self._conn = None
                    time.sleep(attempt)
        raise AssertionError("unreachable")

    def connection(self) -> psycopg.Connection[Any]:
        """Return the connection, for statements that must not run twice."""
        if self._conn is None or self._conn.closed:
            self._conn = connect(self.dsn, self.name)
        return self._conn

    def is_broken(self) -> bool:
        """Whether there is no working connection."""
        return self._conn is None or self._conn.broken or self._conn.closed

    def close(self) -> None:
        """Close the connection; the next statement opens another one."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def quoted(query: LiteralString, *values: Any) -> str:
    """Return a statement with its values as literals: ADBC uses COPY, without parameters."""
    text = sql.SQL(query).format(*[sql.Literal(value) for value in values])
    return text.as_string(None)


def select(names: list[str], rows: str) -> str:
    """Return the query for these columns of the rows of a claim."""
    return f"select {', '.join(f'{COLUMNS[name][2]} as {name}' for name in names)} from {rows}"


LEASE_PARTS: Final = "select low, high, size, attempt, grouped from pgq.lease_parts(%s, %s)"


def known(attempt: int | None, grouped: bool) -> Known:
    """Return the columns with the same value in all messages of a part of a lease."""
    found: Known = {} if grouped else {"key": None}
    return found if attempt is None else found | {"attempt": attempt}


def read_lease(
    dsn: str, lease: int, low: int, high: int, schema: StructType, same: Known, where: str = ""
) -> Iterator[Any]:
    """Yield the messages of a lease with ids from `low` to before `high`, as record batches.

    :param same: columns with a known value, which are not read.
    :param where: additional SQL conditions.
    """
    rows = quoted(
        "pgq.leased_message where lease_id = {0} and id >= {1} and id < {2}"
        " and range_low < {2} and range_high > {1}",
        lease,
        low,
        high,
    )
    names = [name for name in schema.fieldNames() if name not in same] or ["id"]
    before = quoted("pgq.lease_parts({})", lease)
    return read_arrow(dsn, select(names, rows + where), schema, same, before)


def arrow_schema(schema: StructType, names: list[str] | None = None) -> Any:
    """Return the Arrow schema for a schema of Spark, or for the given column names."""
    import pyarrow as pa

    kinds: dict[DataType, Any] = {
        LongType(): pa.int64(),
        IntegerType(): pa.int32(),
        StringType(): pa.string(),
        TimestampType(): pa.timestamp("us", tz="UTC"),
    }
    fields = schema if names is None else schema_of(names)
    return pa.schema([pa.field(f.name, kinds[f.dataType], nullable=f.nullable) for f in fields])


def read_arrow(
    dsn: str,
    query: str,
    schema: StructType,
    same: Known | None = None,
    before: str = "generate_series(1, 1)",
) -> Iterator[Any]:
    """Yield the rows of a query as record batches of exactly the schema that Spark expects.

    :param same: columns with a known value, which the query leaves out: each field of each row
        takes the driver a tenth of a microsecond.
    :param before: a table expression that is read first, in the same transaction.
    """
    import pyarrow as pa

    target = arrow_schema(schema)
    address = make_conninfo(dsn, application_name="pgq spark read")
    conn = _begin(address, f"select {PLAN} from {before} limit 1")
    try:
        with conn.cursor() as cursor:
            cursor.adbc_statement.set_options(**BATCH)
            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                arrays = [
                    pa.repeat(pa.scalar(same[field.name], field.type), batch.num_rows)
                    if same and field.name in same
                    else batch.column(field.name).cast(field.type)  # ADBC has a type for JSON
                    for field in target
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=target)
        conn.rollback()
    except BaseException:
        close(conn)
        raise
    keep(address, conn)


def note_read(dsn: str, statement: str) -> None:
    """Run a statement on the connection for reading, and commit it."""
    address = make_conninfo(dsn, application_name="pgq spark read")
    conn = _begin(address, statement)
    try:
        conn.commit()
    except BaseException:
        close(conn)
        raise
    keep(address, conn)


def _begin(address: str, first: str) -> Any:
    """Return a connection that has run the first statement of a transaction."""
    return start_reading(address, first)[0]


def start_reading(address: str, first: str) -> tuple[Any, list[Any]]:
    """Return a connection that has run the first statement of a transaction, and its rows.

    A connection that an earlier task of this process has left is used again: opening one takes as
    long as reading ten thousand messages.
    """
    import adbc_driver_postgresql.dbapi as adbc

    conn = _kept().pop(address, None)
    while True:
        old = conn is not None
        conn = conn or _connect(address)
        try:
            with conn.cursor() as cursor:
                cursor.execute(first)
                return conn, cursor.fetchall()
        except adbc.Error as error:
            close(conn)
            conn = None
            if error.sqlstate == LeaseLost.sqlstate:
                raise LeaseLost(str(error).partition("ERROR:  ")[2].partition("\n")[0]) from None
            if not old:
                raise


def _connect(address: str) -> Any:
    """Open a connection; retry, because the server worked a moment ago, when the plan was made."""
    import adbc_driver_postgresql.dbapi as adbc

    for attempt in range(1, 5):
        try:
            return adbc.connect(address)
        except adbc.OperationalError:
            time.sleep(attempt)
    return adbc.connect(address)


def close(conn: Any) -> None:
    """Close a connection in an unknown state."""
    with suppress(Exception):  # it may be broken
        conn.close()


def keep(address: str, conn: Any) -> None:
    """Keep a connection for the next task of this process."""
    other = _kept().pop(address, None)
    if other is not None:  # of another thread
        close(other)
    _kept()[address] = conn


def _kept() -> dict[str, Any]:
    """Return the kept connections of this process by address.

    They are stored in the driver's module: Spark sends our modules again with each task.
    """
    import adbc_driver_postgresql

    space = vars(adbc_driver_postgresql)
    if "_pgq_kept" not in space:
        # Spark's workers collect garbage after each task. Freezing the objects that exist now
        # saves about 40 ms of CPU each time.
        gc.freeze()
        space["_pgq_kept"] = {}
    found: dict[str, Any] = space["_pgq_kept"]
    return found
