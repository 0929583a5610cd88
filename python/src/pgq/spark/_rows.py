"""Rows of PostgreSQL as Arrow batches, and the connections for it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, LiteralString

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

# A column of Spark: its type, whether it can be null, and what it is in the rows of a claim.
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
    "expires_at": (TimestampType(), True, "expires_at"),
}
# Few ranges of ids, each of them with many messages: what the planner cannot know.
PLAN: Final = ", ".join(
    f"set_config('{name}', '{value}', true)"
    for name, value in {
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "enable_material": "off",
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
    }.items()
)
Known = dict[str, int | None]
MORE = ("sender", "recipient", "reply_to", "correlation_id", "expires_at")


class ServerError(PgqError):
    """The database cannot be used by Spark; the message says why."""


def schema_of(names: list[str]) -> StructType:
    """Return the schema of these columns."""
    return StructType([StructField(name, *COLUMNS[name][:2]) for name in names])


def column_names(*, headers: bool = True, more: bool = False) -> list[str]:
    """Return the columns that the options ask for."""
    return [
        name for name in COLUMNS if (headers or name != "headers") and (more or name not in MORE)
    ]


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
    """Run a statement; raise pgq's own exceptions, which say what to do."""
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


def quoted(query: LiteralString, *values: Any) -> str:
    """Return a statement with its values in it, for a driver that copies."""
    text = sql.SQL(query).format(*[sql.Literal(value) for value in values])
    return text.as_string(None)


def select(names: list[str], rows: str) -> str:
    """Return the query for these columns of the rows of a claim."""
    return f"select {', '.join(f'{COLUMNS[name][2]} as {name}' for name in names)} from {rows}"


LEASE_PARTS: Final = "select low, high, size, attempt, grouped from pgq.lease_parts(%s, %s)"


def known(attempt: int | None, grouped: bool) -> Known:
    """Return the columns that are the same in all messages of a lease, from what its parts say."""
    found: Known = {} if grouped else {"key": None}
    return found if attempt is None else found | {"attempt": attempt}


def read_lease(
    dsn: str, lease: int, low: int, high: int, schema: StructType, same: Known
) -> Iterator[Any]:
    """Yield the messages of a lease with ids from low to before high, as record batches."""
    rows = quoted(
        "pgq.leased_message where lease_id = {0} and id >= {1} and id < {2}"
        " and range_low < {2} and range_high > {1}",
        *(lease, low, high),
    )
    names = [name for name in schema.fieldNames() if name not in same] or ["id"]
    return read_arrow(dsn, select(names, rows), schema, same, quoted("pgq.lease_parts({})", lease))


def read_arrow(
    dsn: str,
    query: str,
    schema: StructType,
    same: Known | None = None,
    before: str = "generate_series(1, 1)",
) -> Iterator[Any]:
    """Yield the rows of a query as record batches of exactly the schema that Spark expects.

    :param same: columns that the query leaves out, because their value is known: each field of each
        row takes the driver a tenth of a microsecond.
    :param before: what to read first, in the same transaction.
    """
    import pyarrow as pa

    kinds: dict[DataType, Any] = {
        LongType(): pa.int64(),
        IntegerType(): pa.int32(),
        StringType(): pa.string(),
        TimestampType(): pa.timestamp("us", tz="UTC"),
    }
    target = pa.schema([pa.field(f.name, kinds[f.dataType], nullable=f.nullable) for f in schema])
    address = make_conninfo(dsn, application_name="pgq spark read")
    conn = _begin(address, f"select {PLAN} from {before} limit 1")
    try:
        with conn.cursor() as cursor:
            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                arrays = [
                    pa.repeat(pa.scalar(same[field.name], field.type), batch.num_rows)
                    if same and field.name in same
                    else batch.column(field.name).cast(field.type)  # JSON is a type of its own
                    for field in target
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=target)
        conn.rollback()
    except BaseException:
        _close(conn)
        raise
    _kept()[address] = conn


def _begin(address: str, first: str) -> Any:
    """Return a connection that has run the first statement of a transaction.

    It may be one that an earlier task of this process has left, because to open one takes as long
    as to read ten thousand messages.
    """
    import adbc_driver_postgresql.dbapi as adbc

    conn = _kept().pop(address, None)
    while True:
        old = conn is not None
        conn = conn or adbc.connect(address)
        try:
            with conn.cursor() as cursor:
                cursor.execute(first)
                cursor.fetchall()
            return conn
        except adbc.Error as error:
            _close(conn)
            conn = None
            if error.sqlstate == LeaseLost.sqlstate:
                raise LeaseLost(str(error).partition("ERROR:  ")[2].partition("\n")[0]) from None
            if not old:
                raise


def _close(conn: Any) -> None:
    with suppress(Exception):  # it may be broken
        conn.close()


def _kept() -> dict[str, Any]:
    """Return what stays in this process when a task ends; our modules come anew with each."""
    import adbc_driver_postgresql

    space = vars(adbc_driver_postgresql)
    if "_pgq_kept" not in space:
        # Spark's workers collect garbage after each task: to leave out what was imported until
        # now saves some 40 ms of processor each time.
        gc.freeze()
        space["_pgq_kept"] = {}
    found: dict[str, Any] = space["_pgq_kept"]
    return found
