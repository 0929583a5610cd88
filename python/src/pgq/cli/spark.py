"""``pgq spark``: pipelines that run on Spark."""

from __future__ import annotations

import argparse

from pgq.cli._command import Commands, Failure, Options
from pgq.cli._output import Output

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "spark",
        spark,
        "run a pipeline on Spark: archive, replay, dlq-report or drain",
        """
        pgq spark archive file:///var/archive
        pgq spark replay file:///var/archive --topic orders --since 2026-01-01
        pgq spark dlq-report failures.html
        pgq spark drain orders file:///var/orders --filter '{"type": "paid"}'
        pgq spark archive --help
        """,
        more="Needs the extra 'spark' (pip install pgq-client[spark]) and Java.\n\n",
    )
    parser.add_argument("pipeline", nargs=argparse.REMAINDER, help="the pipeline and its arguments")


def spark(options: Options, out: Output) -> int:
    """Run a pipeline; PySpark is imported only here."""
    try:
        from pgq.spark.__main__ import main
    except ModuleNotFoundError as error:
        raise Failure(
            f"Spark's package is missing: {error}", "pip install 'pgq-client[spark]'"
        ) from None
    given = ["--dsn", options.dsn] if options.dsn and "--dsn" not in options.pipeline else []
    if options.json and "--json" not in options.pipeline:
        given.append("--json")
    return main([*options.pipeline[:1], *given, *options.pipeline[1:]], prog="pgq spark")
