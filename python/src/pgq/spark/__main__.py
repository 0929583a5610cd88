"""``python -m pgq.spark archive|replay|dlq-report|drain``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pgq.spark.functions import register
from pgq.spark.options import N, parse_span
from pgq.spark.pipelines import archive, dlq_report, drain, replay, short, table


def add_parsers(commands: Any) -> None:
    """Add the commands to subparsers; each sets ``run``, a function of the arguments."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dsn", help="connection string of the database; PGQ_DSN if not given")
    common.add_argument("--master", help="Spark's master, such as local[4] or spark://host:7077")
    common.add_argument("--remote", help="a Spark Connect server, such as sc://host:15002")
    common.add_argument("--partitions", type=int, default=0, help="how many tasks read in parallel")
    common.add_argument("--json", action="store_true", help="print JSON, one line per row")
    common.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"
    )

    command = commands.add_parser(
        "archive", parents=[common], help="copy the closed eras of the log to Parquet"
    )
    command.add_argument("target", help="a directory, such as file:///archive or s3a://bucket/q")
    command.add_argument("--replica", help="a standby to read from")
    command.add_argument(
        "--wait", default="7 days", help="how long an era waits for its copy beyond its retention"
    )
    command.set_defaults(run=run_archive)

    command = commands.add_parser(
        "replay", parents=[common], help="publish archived messages again, once"
    )
    command.add_argument("source", help="the directory that archive wrote to")
    command.add_argument("--topic", help="only messages of this topic")
    command.add_argument("--since", type=moment, help="published at or after, ISO 8601")
    command.add_argument("--until", type=moment, help="published before, ISO 8601")
    command.add_argument("--filter", type=json.loads, help="a filter document")
    command.add_argument("--to", help="the topic to publish to; that of each message if not given")
    command.add_argument("--name", help="name of the replay: a name is published once")
    command.add_argument("--dry-run", action="store_true", help="count, and publish nothing")
    command.set_defaults(run=run_replay)

    command = commands.add_parser(
        "dlq-report", parents=[common], help="count dead letters by queue, reason, error and hour"
    )
    command.add_argument("target", nargs="?", help="an HTML file for the plots")
    command.set_defaults(run=run_dlq_report)

    command = commands.add_parser(
        "drain", parents=[common], help="move a queue's messages to Parquet"
    )
    command.add_argument("topic", help="the name of the queue")
    command.add_argument("target", help="a directory, such as file:///orders or s3a://bucket/o")
    command.add_argument("--filter", type=json.loads, help="a filter document")
    command.add_argument("--n", type=int, default=N, help="maximum number of messages of a batch")
    command.add_argument("--name", help="name of the stream that claims the batches")
    command.add_argument(
        "--sql",
        help="a query on the view 'batch' that keeps id; messages whose column error is not null"
        " are refused",
    )
    command.add_argument(
        "--dropped",
        choices=["refuse", "release"],
        default="refuse",
        help="messages that --sql returns no row for: refuse them (nack), or release them",
    )
    command.set_defaults(run=run_drain)


def moment(text: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def session(options: argparse.Namespace) -> SparkSession:
    builder = SparkSession.builder.appName(f"pgq {options.command}")
    for setting in options.conf:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    if options.master:
        builder = builder.master(options.master)
    if options.remote:
        builder = builder.remote(options.remote)
    spark = builder.getOrCreate()
    register(spark, options.dsn)
    return spark


def show(options: argparse.Namespace, rows: list[tuple[Any, ...]], *titles: str) -> None:
    """Print rows as a table, or as one JSON object per row."""
    if not options.json:
        print(table(rows, *titles))
    for row in rows if options.json else ():
        print(json.dumps(dict(zip(titles, row, strict=True)), default=str))


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run_archive(options: argparse.Namespace) -> int:
    done = archive(
        session(options),
        options.target,
        dsn=options.dsn,
        replica=options.replica,
        wait=parse_span("wait", options.wait),
        partitions=options.partitions,
        say=say,
    )
    rows = [(era.era, era.messages, era.checksum, era.path) for era in done]
    show(options, rows, "era", "messages", "checksum", "path")
    return 0


def run_replay(options: argparse.Namespace) -> int:
    chosen = ("topic", "since", "until", "filter", "to", "name", "dsn", "dry_run", "partitions")
    count = replay(
        session(options),
        options.source,
        **{name: getattr(options, name) for name in chosen},
        say=say,
    )
    show(options, [(options.source, count)], "source", "found" if options.dry_run else "published")
    return 0


def run_dlq_report(options: argparse.Namespace) -> int:
    report = dlq_report(
        session(options), options.target, dsn=options.dsn, partitions=options.partitions, say=say
    )
    rows = [tuple(row) for row in report.limit(50).collect()]
    if not options.json:
        error = report.columns.index("error")
        rows = [(*row[:error], short(row[error], 60), *row[error + 1 :]) for row in rows]
    show(options, rows, *report.columns)
    return 0


def run_drain(options: argparse.Namespace) -> int:
    spark = session(options)

    def transform(rows: DataFrame) -> DataFrame:
        rows.createOrReplaceTempView("batch")
        return spark.sql(options.sql)

    done = drain(
        spark,
        options.topic,
        options.target,
        dsn=options.dsn,
        filter=options.filter,
        transform=transform if options.sql else None,
        n=options.n,
        name=options.name,
        dropped=options.dropped,
        partitions=options.partitions,
        say=say,
    )
    counts = (done.batches, done.written, done.refused, done.released)
    show(options, [counts], "batches", "written", "refused", "released")
    return 0


def main(arguments: Sequence[str] | None = None, prog: str = "pgq.spark") -> int:
    parser = argparse.ArgumentParser(prog=prog, description=(__doc__ or "").strip("`. "))
    add_parsers(parser.add_subparsers(dest="command", required=True, metavar="command"))
    options = parser.parse_args(arguments)
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
