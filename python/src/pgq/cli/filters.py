"""``pgq filter test`` and ``pgq filter explain``."""

from __future__ import annotations

from pgq.cli._command import (
    NO,
    Commands,
    Options,
    client,
    filter_document,
    json_object,
    json_value,
)
from pgq.cli._output import Output

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Add the commands."""
    group = commands.group("filter", "test and explain filters")
    parser = group.add(
        "test",
        test,
        "test whether a message matches a filter; exit code 3 if not",
        """
        pgq filter test '{"type": "paid"}' --headers '{"type": "paid"}'
        pgq filter test '{"payload.amount": {"$gt": 100}}' --payload '{"amount": 120}'
        """,
    )
    parser.add_argument("filter", type=filter_document, help="a filter document")
    parser.add_argument("--headers", type=json_object, default={}, metavar="JSON")
    parser.add_argument("--payload", type=json_value, metavar="JSON")
    parser = group.add(
        "explain",
        explain,
        "explain how a filter is evaluated on a queue, and what a claim costs",
        """
        pgq filter explain orders '{"type": "paid"}'
        """,
    )
    parser.add_argument("queue", help="the name of a queue")
    parser.add_argument("filter", type=filter_document, help="a filter document")


def test(options: Options, out: Output) -> int:
    """Test a filter on one message."""
    with client(options) as database:
        matches = database.matches(options.filter, options.headers, options.payload)
    if out.as_json:
        out.value("matches", matches)
    else:
        print("matches" if matches else "does not match")
    return 0 if matches else NO


def explain(options: Options, out: Output) -> None:
    """Explain a filter."""
    with client(options) as database:
        out.row(database.explain_filter(options.queue, options.filter))
