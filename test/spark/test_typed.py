"""Payloads with types, headers as maps, and options of Kafka's source."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from harness.spark import Fill
from pgq.spark._shape import parse
from pgq.spark.options import BATCH_READ, STREAM_READ, OptionError, Options

SECONDS = 120
SCHEMA = (
    "order bigint, amount double, price decimal(10,2), at timestamp, day date, tags array<string>,"
    " buyer struct<name: string>"
)
GOOD = (
    '{"order": 1, "amount": 2, "price": 1.25, "at": "2026-01-02T03:04:05.678901Z", "day":'
    ' "2026-01-02", "tags": ["x"], "buyer": {"name": "Ö", "age": 7}, "more": [1, {"a": 2}]}'
)


def test_a_payload_has_types_and_bad_ones_a_column_of_their_own(
    spark: SparkSession, db: psycopg.Connection, fill: Fill, tmp_path: Path
) -> None:
    fill(n=0)
    bad = ['"text"', '{"order": "one"}', '{"order": 1.5}', "[1]", "null"]
    for payload in (GOOD, '{"order": 2}', "{}", *bad):
        db.execute(
            "insert into pgq.message (topic, payload, headers) values ('work', %s, %s)",
            [payload, '{"a": 1.50, "b": "x", "c": null}'],
        )
    options = {"topic": "work", "payloadSchema": SCHEMA, "headersFormat": "map"}
    df = spark.read.format("pgq").options(**options).load()
    rows = df.orderBy("id").collect()
    first = rows[0]
    assert (first["order"], first["amount"], first["price"]) == (1, 2.0, Decimal("1.25"))
    assert (first["at"], first["day"]) == (
        datetime(2026, 1, 2, 3, 4, 5, 678901),
        date(2026, 1, 2),
    )
    assert (first["tags"], first["buyer"]["name"]) == (["x"], "Ö")
    assert first["headers"] == {"a": "1.50", "b": "x", "c": None}
    assert [row["order"] for row in rows] == [1, 2, *[None] * 6]
    assert [row["_corrupt_record"] for row in rows] == [None, None, None, *bad]
    assert df.where("_corrupt_record is null").agg({"order": "sum"}).first() == (3,)
    assert [row[0] for row in df.select("order").limit(1).collect()] == [1]

    # As a VARIANT, with typed columns beside it.
    variants = spark.read.format("pgq").options(**options, payloadFormat="variant").load()
    age, text = "variant_get(value, '$.buyer.age', 'int') as age", "to_json(value) as text"
    rows = variants.orderBy("id").selectExpr("order", age, text).collect()
    assert (rows[0]["order"], rows[0]["age"]) == (1, 7)
    assert [row["text"] for row in rows[3:]] == [text.replace(" ", "") for text in bad]

    # A stream has them too, and its time is that of the message.
    events = spark.readStream.format("pgq").options(**options, consumer="typed").load()
    counted = events.withWatermark("timestamp", "1 hour").dropDuplicates(["order", "timestamp"])
    query = counted.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert query.trigger(availableNow=True).start().awaitTermination(SECONDS)
    found = spark.read.parquet(str(tmp_path / "out")).where("order is not null")
    assert sorted(row["order"] for row in found.collect()) == [1, 2]


def test_payloads_that_fit_are_parsed_by_the_batch() -> None:
    schema = StructType([StructField("n", LongType()), StructField("day", DateType())])
    found = parse(['{"n": 1, "day": "2026-01-02"}', '{"x": 5}'], schema)
    assert found.to_pylist() == [{"n": 1, "day": date(2026, 1, 2)}, {"n": None, "day": None}]
    assert parse(['{"n": 1}', "5"], schema) is None
    assert parse(['{"day": "soon"}'], schema) is None
    assert parse([], schema).num_rows == 0
    text = StructType([StructField("a", StringType())])
    assert parse(['{"a": "line\\nbreak"}'], text).to_pylist() == [{"a": "line\nbreak"}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribePattern": "a.*"}, "one of Kafka's: a reader has one queue; pgq.subscribe"),
        ({"kafka.bootstrap.servers": "h:9092"}, "in PostgreSQL; say where by the option 'dsn'"),
        ({"kafka.group.id": "g"}, "name the stream by the option 'consumer'"),
        ({"kafka.max.poll.records": "5"}, "settings of Kafka's client mean nothing here"),
        ({"assign": "{}"}, "a queue has no partitions"),
        ({"startingOffsets": '{"t": {"0": 23}}'}, "a queue has no partitions, and its offsets"),
        ({"startingTimestamp": "yesterday"}, "a time such as 2030-01-02T03:04:05"),
        ({"headersFormat": "list"}, "is json or map, not 'list'"),
        ({"payloadFormat": "xml"}, "is json or variant, not 'xml'"),
    ],
)
def test_options_of_kafka_name_their_replacement(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Options(options, BATCH_READ | STREAM_READ, "reading").check()


def test_options_that_kafka_has_too_mean_the_same() -> None:
    given = {"subscribe": "work", "minPartitions": "3", "startingTimestamp": "1893456000000"}
    options = Options(given, BATCH_READ, "reading")
    assert (options.text("topic"), options.number("numpartitions", 0, 0, 9)) == ("work", 3)
    moment = options.moment("startingtimestamp")
    assert moment is not None
    assert moment.isoformat() == "2030-01-01T00:00:00+00:00"
