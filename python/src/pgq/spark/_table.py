"""A table of PostgreSQL as the target: staging its rows, and the transaction of the commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg import sql
from pyspark.sql.types import StructType

from pgq.spark._rows import Server, ask
from pgq.spark._stage import JSONB, Staged, Staging
from pgq.spark.options import OptionError

# Types without modifiers: an assignment to varchar(10) checks, but a cast would truncate.
COLUMNS: Final = """
    select a.attname, pg_catalog.format_type(a.atttypid, null), t.typcategory = 'A',
           exists (select from pg_catalog.pg_index i
                   where i.indrelid = a.attrelid and i.indisprimary and a.attnum = any (i.indkey))
    from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
    where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
    order by a.attnum"""


class Table(Staging):
    """A table: stages its rows, and has the statement that inserts them.

    A row is staged as a JSON array of texts, which the input functions of PostgreSQL read. So any
    type with a text representation can be written.
    """

    def __init__(
        self,
        dsn: str,
        name: str,
        schema: StructType,
        mode: str = "append",
        keys: Sequence[str] | None = None,
        update: str | None = None,
        *,
        patient: bool = False,
    ) -> None:
        super().__init__(dsn)
        self.name = name
        self.names = schema.fieldNames()
        if mode not in ("append", "upsert"):
            raise OptionError(f"rows are written by 'append' or 'upsert', not {mode!r}")
        if mode == "append" and (keys or update):
            raise OptionError("'keys' and 'update' are for the mode 'upsert'")
        server = Server(dsn, "pgq spark plan")
        try:
            if not patient:
                server.connection()  # raises without retries
            found = server.ask(COLUMNS, name)
        except psycopg.errors.UndefinedTable as error:
            raise OptionError(f"{error.diag.message_primary}: create the table first") from None
        finally:
            server.close()
        columns = {column: (kind, is_array) for column, kind, is_array, _ in found}
        for column in self.names:
            if column not in columns:
                raise OptionError(
                    f"the table {name} has no column {column!r}; there are {', '.join(columns)}"
                )
        self.statement = insert(
            name,
            [(column, *columns[column]) for column in self.names],
            conflict(
                self.names,
                mode,
                list(keys or [column for column, *_, is_key in found if is_key]),
                update,
            ),
        )

    def fields(self) -> dict[str, Any]:
        import pyarrow as pa

        return {"topic": pa.string(), "payload": pa.string()}

    def arrays(self, batch: Any) -> list[Any]:
        import pyarrow as pa

        texts = json_arrays([batch.column(name) for name in self.names], batch.num_rows)
        return [pa.repeat("", batch.num_rows), texts]

    def explain(self, error: str, column: str, value: str) -> OptionError:
        return OptionError(f"a row cannot be staged for the table {self.name}: {error}")


def json_arrays(columns: Sequence[Any], size: int) -> Any:
    """Return rows as JSON arrays, as PostgreSQL receives jsonb in binary.

    pyarrow joins the columns of a batch: a row takes a third of the CPU of json.dumps.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not columns:
        return pa.repeat(f"{JSONB}[]", size)
    parts: list[Any] = []
    for column in columns:
        parts += [",", json_texts(column)]
    return pc.binary_join_element_wise(f"{JSONB}[", *parts[1:], "]", "")


def json_texts(column: Any) -> Any:
    """Return the values of a column as JSON strings, or as other JSON values if they are nested."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_map(kind):
        return encoded([None if item is None else dict(item) for item in column.to_pylist()])
    if pa.types.is_nested(kind):
        return encoded(column.to_pylist())
    if pa.types.is_timestamp(kind):
        if kind.tz is not None:
            column = column.cast(pa.timestamp("us", tz="UTC"))
        zone = "" if kind.tz is None else "Z"
        column = pc.strftime(column, format=f"%Y-%m-%dT%H:%M:%S{zone}")
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        items = column.to_pylist()
        return encoded([None if item is None else f"\\x{item.hex()}" for item in items])
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = column.cast(pa.string())
        column = pc.replace_substring(text, "\\", "\\\\")
        column = pc.replace_substring(column, '"', '\\"')
        if has_controls(column):
            return encoded(text.to_pylist())
    else:
        column = column.cast(pa.string())
    quoted = pc.binary_join_element_wise('"', column, '"', "")
    return pc.fill_null(quoted, "null") if quoted.null_count else quoted


def has_controls(column: Any) -> bool:
    """Whether a text that pyarrow has just made has a control character, which JSON escapes."""
    import numpy as np

    data = column.buffers()[2]
    return data is not None and bool((np.frombuffer(data, np.uint8) < ord(" ")).any())


def encoded(values: Sequence[Any]) -> Any:
    """Return values as JSON texts, one by one."""
    import pyarrow as pa

    encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
    return pa.array([encode(value) for value in values], pa.string())


def insert(name: Any, columns: list[tuple[str, Any, bool]], rest: sql.Composable) -> sql.Composed:
    """Return the statement that moves staged rows into the table.

    The statement runs with the rights of the writer. The name of the table is SQL text as the user
    writes it; the names of types are as the server prints them.
    """
    fields = []
    for number, (_, kind, is_array) in enumerate(columns):
        index = sql.Literal(number)
        form = (
            "case when jsonb_typeof(r -> {0}) = 'array'"
            " then array(select jsonb_array_elements_text(r -> {0}))::{1} else (r ->> {0})::{1} end"
            if is_array
            else "(r ->> {0})::{1}"
        )
        fields.append(sql.SQL(form).format(index, sql.SQL(kind)))
    return sql.SQL(
        "insert into {} as t ({}) select {} from pgq.take_staged(%s::uuid[], %s) s (r) {}"
    ).format(
        sql.SQL(name),
        sql.SQL(", ").join(sql.Identifier(column) for column, *_ in columns),
        sql.SQL(", ").join(fields),
        rest,
    )


def conflict(names: list[str], mode: str, keys: list[str], update: Any) -> sql.Composable:
    """Return the ON CONFLICT clause for rows whose key exists."""
    if mode == "append":
        return sql.SQL("")
    if not keys:
        raise OptionError("an upsert needs a primary key, or the columns that are 'keys'")
    if missing := [key for key in keys if key not in names]:
        raise OptionError(f"an upsert needs the columns of its key: {', '.join(missing)}")
    change: sql.Composable = sql.SQL(", ").join(
        sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name))
        for name in names
        if name not in keys
    )
    if update is not None:
        change = sql.SQL(update)
    elif set(names) <= set(keys):
        return sql.SQL("on conflict do nothing")
    return sql.SQL("on conflict ({}) do update set {}").format(
        sql.SQL(", ").join(map(sql.Identifier, keys)), change
    )


def commit_staged(
    dsn: str,
    tables: Sequence[tuple[Table, Sequence[Staged]]],
    messages: Sequence[Staged],
    *,
    reader: str | None,
    query: str | None,
    writer: str | None,
    epoch: int | None,
    anew: bool = False,
) -> bool:
    """Write the rows, publish the messages and finish the batch that was read: one transaction.

    The commit can be repeated: it returns False, and changes nothing, if it was committed before.
    """
    wrote = {table.name: sum(part.size for part in parts) for table, parts in tables}
    published = sum(part.size for part in messages)
    if messages:
        wrote["messages"] = published
    tokens = [part.token for _, parts in tables for part in parts]
    tokens += [part.token for part in messages]

    def work(conn: psycopg.Connection[Any]) -> bool:
        with conn.transaction():
            ((is_new,),) = ask(
                conn,
                "select pgq.commit_batch(%s, %s::jsonb, %s, %s, %s, %s)",
                reader,
                json.dumps(wrote),
                writer,
                epoch,
                query,
                anew,
            )
            if not is_new:
                ask(conn, "select pgq.discard_staged(%s::uuid[])", tokens)
                return False
            for table, parts in tables:
                own = [part.token for part in parts if part.size]
                if own:
                    conn.execute(table.statement, (own, wrote[table.name]))
            if published:
                ask(
                    conn,
                    "select pgq.publish_staged(%s::uuid[], %s)",
                    [part.token for part in messages],
                    published,
                )
        return True

    server = Server(dsn, "pgq spark commit")
    try:
        return server.run(work)
    finally:
        server.close()
