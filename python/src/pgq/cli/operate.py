"""``pgq peek``, ``cancel``, ``purge``, ``move`` and ``reschedule``: waiting messages."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from pgq.cli._command import (
    USAGE,
    Commands,
    Failure,
    Options,
    client,
    duration,
    filter_document,
    moment,
    positive,
)
from pgq.cli._output import Output, say
from pgq.rows import Row

__all__ = ["add"]

_PEEKED = ("id", "topic", "priority", "published_at", "headers", "payload")
# What the column lease_until is in each state.
_TIMES = {
    "scheduled": "due_at",
    "waiting": "due_at",
    "leased": "lease_until",
    "dead": "failed_at",
}
_STATES = ("ready", "scheduled", "leased", "waiting", "dead")


def add(commands: Commands) -> None:
    """Add the commands."""
    parser = commands.add(
        "peek",
        peek,
        "list messages without claiming them: the next ones, or those in another state",
        """
        pgq peek orders
        pgq peek orders '{"type": "paid"}' -n 50 --json
        pgq peek orders --state scheduled
        """,
    )
    _queue(parser)
    parser.add_argument("-n", type=positive, default=10, help="limit (10)")
    parser.add_argument(
        "--state", choices=_STATES, default="ready", help="messages in this state (ready)"
    )
    parser = commands.add(
        "cancel",
        cancel,
        "delete waiting messages: ready, scheduled or in ordering groups",
        """
        pgq cancel orders --id 4711 --id 4712
        pgq cancel orders '{"type": "test"}' --dry-run
        pgq cancel mails --dedup-key welcome-17
        """,
    )
    _queue(parser)
    _id(parser)
    parser.add_argument("--dedup-key", metavar="KEY", help="only the message with this dedup key")
    _dry_run(parser)
    parser = commands.add(
        "purge",
        purge,
        "delete all waiting messages of a queue, or those that match",
        """
        pgq purge orders --dry-run
        pgq purge orders --all
        pgq purge orders '{"type": "test"}'
        """,
        more="Leased messages, dead letters, subscriptions and rights stay.\n\n",
    )
    _queue(parser)
    _all(parser, "a filter")
    _dry_run(parser)
    parser = commands.add(
        "move",
        move,
        "move waiting messages to another queue",
        """
        pgq move orders orders_slow '{"type": "report"}' --dry-run
        pgq move orders orders_slow -n 1000
        pgq move orders orders_slow --all
        """,
    )
    parser.add_argument("queue", help="the queue to move from")
    parser.add_argument("to", help="the queue to move to")
    parser.add_argument("filter", nargs="?", type=filter_document, help="a filter document")
    parser.add_argument("-n", type=positive, help="limit, in delivery order")
    _all(parser, "a filter and -n")
    _dry_run(parser)
    parser = commands.add(
        "reschedule",
        reschedule,
        "change the delivery time of waiting messages",
        """
        pgq reschedule orders --id 4711
        pgq reschedule orders '{"type": "report"}' --delay 2h
        pgq reschedule orders --all --at 2030-01-31T06:00+01:00 --dry-run
        """,
        more="Without --at and --delay the messages are delivered now.\n\n",
    )
    _queue(parser)
    _id(parser)
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--at", type=moment, metavar="TIME", help="deliver at this time")
    when.add_argument("--delay", type=duration, metavar="DURATION", help="deliver after this delay")
    _all(parser, "a filter and --id")
    _dry_run(parser)


def _queue(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", help="the name of a queue")
    parser.add_argument("filter", nargs="?", type=filter_document, help="a filter document")


def _id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", action="append", type=int, help="only this message; repeatable")


def _all(parser: argparse.ArgumentParser, without: str) -> None:
    parser.add_argument("--all", action="store_true", help=f"required without {without}")


def _dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only count")


def _require_selection(options: Options, what: str, *given: object) -> None:
    if not (options.all or options.dry_run or any(value is not None for value in given)):
        raise Failure(f"{what} or --all", code=USAGE)


def peek(options: Options, out: Output) -> None:
    """List messages."""
    with client(options) as database:
        rows: Sequence[Mapping[str, Any] | Row]
        columns: tuple[str, ...] = _PEEKED
        if options.state == "ready":
            rows = database.peek(options.queue, options.filter, options.n)
        else:
            rows = database.messages(options.queue, options.state, options.filter, options.n)
            time = _TIMES[options.state]
            columns = ("id", "topic", "attempt", time, "headers", "payload")
            if not out.as_json:
                rows = [{**dict(row), time: row["lease_until"]} for row in rows]
    out.rows(rows, columns)
    if not rows:
        say(f"nothing is {options.state}")


def cancel(options: Options, out: Output) -> None:
    """Delete some waiting messages."""
    if options.id is None and options.filter is None and options.dedup_key is None:
        raise Failure(
            "cancel needs a filter, --id or --dedup-key", "All of them: pgq purge", code=USAGE
        )
    with client(options, notices=True) as database:
        count = database.cancel(
            options.queue,
            options.id,
            filter=options.filter,
            dedup_key=options.dedup_key,
            dry_run=options.dry_run,
        )
    out.value("cancelled", count)


def purge(options: Options, out: Output) -> None:
    """Delete all waiting messages, or those that match."""
    _require_selection(options, "purge needs a filter", options.filter)
    with client(options, notices=True) as database:
        count = database.purge(options.queue, options.filter, dry_run=options.dry_run)
    out.value("purged", count)


def move(options: Options, out: Output) -> None:
    """Move messages to another queue."""
    _require_selection(options, "move needs a filter, -n", options.filter, options.n)
    with client(options, notices=True) as database:
        count = database.move(
            options.queue, options.to, options.filter, options.n, dry_run=options.dry_run
        )
    out.value("moved", count)


def reschedule(options: Options, out: Output) -> None:
    """Change the delivery time of messages."""
    _require_selection(options, "reschedule needs a filter, --id", options.filter, options.id)
    with client(options, notices=True) as database:
        count = database.reschedule(
            options.queue,
            options.id,
            filter=options.filter,
            at=options.at,
            delay=options.delay,
            dry_run=options.dry_run,
        )
    out.value("rescheduled", count)
