"""The functions for Spark SQL."""

from __future__ import annotations

import json
import re

import psycopg
import pytest
from pyspark.sql import SparkSession

from harness.paths import TEST
from harness.spark import Fill, stats

ROW = re.compile(r"^    \('(\{.*\})', +'([T. ]+)'\)", re.MULTILINE)


def test_pgq_matches_agrees_with_the_server_on_the_truth_table(
    spark: SparkSession, db: psycopg.Connection
) -> None:
    text = (TEST / "sql/20_filter/truth_table.sql").read_text(encoding="utf-8")
    samples = re.findall(r"\((\d+), '(\{.*?\})'\)", text)
    rows = ROW.findall(text)
    assert (len(samples), len(rows)) == (14, 26)
    cases = [
        (filter, document, expected.split()[int(position) - 1] == "T")
        for filter, expected in rows
        for position, document in samples
        if int(position) <= 11  # those that can be headers as well
    ]
    df = spark.createDataFrame(cases, "filter string, document string, expected boolean")
    df.createOrReplaceTempView("cases")
    answers = spark.sql(
        "select filter, document, expected, pgq_matches(filter, document, document) as found"
        " from cases"
    ).collect()
    assert len(answers) == len(cases)
    assert [row for row in answers if row["found"] != row["expected"]] == []
    for row in answers:
        in_server = db.execute(
            "select pgq.matches(%s::jsonb, %s::jsonb, %s::jsonb)",
            [row["filter"], row["document"], row["document"]],
        ).fetchone()
        assert in_server == (row["found"],)


def test_pgq_matches_takes_everything_without_a_filter_and_refuses_a_bad_one(
    spark: SparkSession,
) -> None:
    (row,) = spark.sql("""select pgq_matches(null, '{}', null) as none,
        pgq_matches('{}', null, '1') as empty,
        pgq_matches('{"payload.n": 0.1}', null, '{"n": 0.10}') as exact""").collect()
    assert row.asDict() == {"none": True, "empty": True, "exact": True}
    for bad in ('{"a": {"$what": 1}}', '{"a": {"$regex": "\\\\\\\\mx"}}'):
        with pytest.raises(Exception, match="InvalidFilter"):
            spark.sql(f"select pgq_matches('{bad}', '{{\"a\": \"x\"}}', null)").collect()


def test_a_table_is_read_with_its_topic(spark: SparkSession, fill: Fill) -> None:
    fill(n=3)
    spark.sql("create table queue using pgq options (topic 'work') comment 'a queue'")
    try:
        assert spark.sql("select count(*) from queue with (topic = 'work')").first() == (3,)
    finally:
        spark.sql("drop table queue")


def test_a_table_function_claims_under_a_name(
    spark: SparkSession, db: psycopg.Connection, fill: Fill
) -> None:
    fill(n=20)
    claim = "select id, value from pgq_claim('work', '{\"type\": \"a\"}', 4, 'sql')"
    first = spark.sql(f"{claim} order by id").collect()
    assert [json.loads(row["value"])["n"] for row in first] == [3, 6, 9, 12]
    assert spark.sql(f"{claim} order by id").collect() == first
    assert stats(db) == (16, 4, 0)
    with pytest.raises(Exception, match="pgq_claim needs a key"):
        spark.sql("select * from pgq_claim('work', null, 1, null)").collect()


def test_a_named_claim_is_ended_from_sql(
    spark: SparkSession, db: psycopg.Connection, fill: Fill
) -> None:
    fill(n=20, max_attempts="1")
    ids = spark.sql("select id from pgq_claim('work', null, 10, 'sql') order by id").collect()
    one, two = ids[0]["id"], ids[1]["id"]

    def ask(call: str) -> int | None:
        (row,) = spark.sql(f"select {call} as answer").collect()
        answer: int | None = row["answer"]
        return answer

    assert ask(f"pgq_ack('work', 'sql', array({one}L))") == 1
    assert ask(f"pgq_nack('work', 'sql', array({two}L), 'bad')") == 1
    assert db.execute("select error from pgq.dead_letter").fetchall() == [("bad",)]
    assert ask("pgq_ack('work', 'sql')") == 8
    assert ask("pgq_ack('work', 'sql')") == 0
    assert ask("pgq_nack('work', null)") is None
    assert stats(db) == (10, 0, 0)


def test_a_query_publishes(spark: SparkSession, db: psycopg.Connection, fill: Fill) -> None:
    fill(n=0)
    query = """select pgq_publish('work', to_json(struct(id as n)), '{"from": "sql"}',
               concat('k', id % 5)) as id from range(10)"""
    ids = [row["id"] for row in spark.sql(query).collect()]
    assert len(ids) == 10
    assert stats(db) == (5, 0, 0)
    spark.sql("select pgq_publish('work', '{}')").collect()
    found = db.execute("select headers, count(*) from pgq.message group by 1 order by 2").fetchall()
    assert found[0] == ({}, 1)
    assert stats(db) == (6, 0, 0)
