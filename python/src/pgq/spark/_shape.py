"""The columns that options choose: a typed payload or a VARIANT, headers as a map."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import (
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
    VariantVal,
)

from pgq.spark._rows import column_names, schema_of
from pgq.spark.options import Options, check_schema

# The name that Spark's from_json uses.
CORRUPT = "_corrupt_record"


class Shape:
    """The columns that a reader returns, and their conversion from those of a message."""

    def __init__(self, options: Options) -> None:
        self.payload = options.text("payloadschema")
        self.has_map = options.choice("headersformat", "json", "map") == "map"
        self.has_variant = options.choice("payloadformat", "json", "variant") == "variant"
        names = column_names(
            headers=options.flag("includeheaders", True),
            more=options.flag("includeall", False),
            log=options.text("slot") is not None,
        )
        self.ours = StructType([self._field(field) for field in schema_of(names)])
        self.schema = self.ours

    def _field(self, field: StructField) -> StructField:
        if field.name == "headers" and self.has_map:
            return StructField("headers", MapType(StringType(), StringType()), False)
        if field.name == "value" and self.has_variant:
            return StructField("value", VariantType(), False)
        return field

    def described(self) -> StructType | str:
        """Return the schema for Spark; with a payload schema as text, which Spark parses."""
        if self.payload is None:
            return self.ours
        columns = [
            f"`{field.name}` {field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
            for field in self.ours
        ]
        return ", ".join([*columns, self.payload, f"`{CORRUPT}` string"])

    def choose(self, schema: StructType) -> StructType:
        """Set the schema that Spark requests; return the columns to read for it."""
        fields = StructType([field for field in schema if field.name in self.ours.fieldNames()])
        check_schema(self.ours, schema if self.payload is None else fields)
        self.schema = schema
        read = schema_of(fields.fieldNames())
        for field, wanted in zip(read, fields, strict=True):
            field.nullable = wanted.nullable  # Spark compares that too
        if len(fields) < len(schema) and "value" not in fields.fieldNames():
            read.add(schema_of(["value"])[0])
        return read

    def make(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield batches with exactly the columns that Spark requests."""
        known = self.ours.fieldNames()
        typed = [field for field in self.schema if field.name not in known]
        is_map = self.has_map and "headers" in self.schema.fieldNames()
        is_variant = self.has_variant and "value" in self.schema.fieldNames()
        if not (typed or is_map or is_variant):
            yield from batches
            return
        import pyarrow as pa

        payload = StructType([field for field in typed if field.name != CORRUPT])
        for batch in batches:
            columns = {name: batch.column(name) for name in batch.schema.names}
            if is_map:
                columns["headers"] = as_map(columns["headers"])
            if typed:
                columns |= parsed(columns["value"], payload)
            if is_variant:
                columns["value"] = as_variant(columns["value"])
            arrays = [columns[field.name] for field in self.schema]
            fields = [
                pa.field(field.name, array.type, nullable=field.nullable)
                for field, array in zip(self.schema, arrays, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def as_map(headers: Any) -> Any:
    """Return headers as maps of texts."""
    import pyarrow as pa

    def text(value: Any) -> str | None:
        return value if value is None or isinstance(value, str) else json.dumps(value)

    rows = [
        # parse_float=str keeps the digits of a number.
        [(name, text(value)) for name, value in json.loads(item, parse_float=str).items()]
        for item in headers.to_pylist()
    ]
    return pa.array(rows, pa.map_(pa.string(), pa.string()))


def as_variant(values: Any) -> Any:
    """Return payloads as Spark's VARIANT, which in Arrow is a pair of binary values."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    found = [VariantVal.parseJson(text) for text in values.to_pylist()]
    rows = [{"value": each.value, "metadata": each.metadata} for each in found]
    return pa.array(rows, to_arrow_type(VariantType()))


def parsed(values: Any, schema: StructType) -> dict[str, Any]:
    """Return the fields of payloads by name, and the payloads that do not fit the schema."""
    import pyarrow as pa

    texts = values.to_pylist()
    corrupt: list[str | None] = [None] * len(texts)
    found = parse(texts, schema)
    if found is None:  # some do not fit: parse one after the other
        rows: list[dict[str, Any]] = []
        for number, text in enumerate(texts):
            one = parse([text], schema)
            rows.append({} if one is None else one.to_pylist()[0])
            corrupt[number] = text if one is None else None
        found = pa.Table.from_pylist(rows, schema=arrow_types(schema))
    columns: dict[str, Any] = {
        name: found.column(name).combine_chunks() for name in schema.fieldNames()
    }
    return columns | {CORRUPT: pa.array(corrupt, pa.string())}


def parse(texts: list[str], schema: StructType) -> Any:
    """Return JSON texts as a table of the schema; None if one of them does not fit."""
    import pyarrow as pa
    import pyarrow.json

    if not texts:
        return arrow_types(schema).empty_table()
    if not all(text.startswith("{") for text in texts):
        return None  # a null among them would crash the parser
    # No text contains a line break: PostgreSQL prints jsonb in one line.
    data = "\n".join(texts).encode()
    # pyarrow's JSON parser has no dates: read them as strings.
    plain = [
        StructField(field.name, StringType()) if field.dataType == DateType() else field
        for field in schema
    ]
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pyarrow.json.ParseOptions(
                explicit_schema=arrow_types(StructType(plain)), unexpected_field_behavior="ignore"
            ),
        )
        if "decimal" in schema.simpleString():
            table.validate(full=True)  # the parser does not check the number of digits
        return table.cast(arrow_types(schema)) if table.num_rows == len(texts) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def arrow_types(schema: StructType) -> Any:
    """Return the Arrow schema for columns of any type."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    types = [to_arrow_type(field.dataType, timezone="UTC") for field in schema]
    return pa.schema(list(zip(schema.fieldNames(), types, strict=True)))
