"""``pgq claim``, ``ack``, ``nack``, ``bury``, ``release``, ``extend`` and ``leases``."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import timedelta

from psycopg.rows import dict_row

from pgq.cli import _sql
from pgq.cli._command import (
    NO,
    Commands,
    Options,
    check_queue,
    client,
    connect,
    duration,
    filter_document,
    json_value,
    positive,
)
from pgq.cli._output import Output, say

__all__ = ["add"]

_COLUMNS = ("lease_id", "id", "topic", "attempt", "headers", "payload", "lease_until")
_LEASES = ("lease_id", "queue", "size", "attempt", "age", "until", "holder", "client", "key")


def add(commands: Commands) -> None:
    """Add the commands."""
    parser = commands.add(
        "claim",
        claim,
        "claim messages for the duration of a lease",
        """
        pgq claim orders
        pgq claim orders '{"type": "paid", "payload.amount": {"$gt": 100}}' -n 10 --lease 5m
        pgq claim orders -n 100 --json | jq .payload
        """,
    )
    parser.add_argument("queue", help="the name of a queue")
    parser.add_argument("filter", nargs="?", type=filter_document, help="a filter document")
    parser.add_argument("-n", type=positive, default=1, help="limit (1)")
    parser.add_argument(
        "--lease",
        type=duration,
        metavar="DURATION",
        help="lease duration; the queue's if not given",
    )
    parser.add_argument("--key", help="claims with the same key return the same messages")

    parser = commands.add(
        "ack",
        ack,
        "acknowledge messages of a lease",
        """
        pgq ack 7301444403
        pgq ack 7301444403 41 42
        """,
    )
    _lease(parser)
    parser = commands.add(
        "nack",
        nack,
        "refuse messages of a lease: they are retried, or become dead letters",
        """
        pgq nack 7301444403 --error 'bank not reachable'
        pgq nack 7301444403 41 --delay 15m
        """,
    )
    _lease(parser)
    parser.add_argument(
        "--delay", type=duration, metavar="DURATION", help="retry delay; the queue's if not given"
    )
    _error(parser)
    parser = commands.add(
        "bury",
        bury,
        "make messages of a lease dead letters now",
        "pgq bury 7301444403 41 --error 'no such customer'",
    )
    _lease(parser)
    _error(parser)
    parser = commands.add(
        "release",
        release,
        "release messages of a lease without counting the attempt",
        "pgq release 7301444403",
    )
    _lease(parser)
    parser.add_argument(
        "--delay", type=duration, metavar="DURATION", default=timedelta(0), help="due after this"
    )
    parser = commands.add("extend", extend, "extend a lease", "pgq extend 7301444403 10m")
    parser.add_argument("lease", type=int, help="the lease_id that claim printed")
    parser.add_argument(
        "time", nargs="?", type=duration, help="from now on; the queue's lease if not given"
    )
    parser = commands.add(
        "leases",
        leases,
        "list the leases: holder, number of messages, age and end; the oldest first",
        """
        pgq leases
        pgq leases orders --json
        """,
        more="pgq release LEASE ends a lease: other consumers can claim its messages.\n\n",
    )
    parser.add_argument("queue", nargs="?", help="all queues if not given")
    parser.add_argument("-n", type=positive, default=100, help="limit (100)")


def _lease(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lease", type=int, help="the lease_id that claim printed")
    parser.add_argument("id", nargs="*", type=int, help="ids of messages; all if not given")


def _error(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--error", help="reason, for people")
    parser.add_argument("--details", type=json_value, metavar="JSON", help="reason, for programs")


def claim(options: Options, out: Output) -> int:
    """Claim messages."""
    with client(options) as database:
        batch = database.claim(
            options.queue, options.filter, options.n, lease=options.lease, key=options.key
        )
    out.rows([asdict(message) for message in batch], _COLUMNS)
    if not batch:
        say("nothing to claim")
    return 0 if batch else NO


def ack(options: Options, out: Output) -> None:
    """Acknowledge messages."""
    with client(options) as database:
        out.value("acknowledged", database.ack(options.lease, options.id or None))


def nack(options: Options, out: Output) -> None:
    """Refuse messages."""
    with client(options) as database:
        count = database.nack(
            options.lease,
            options.id or None,
            delay=options.delay,
            error=options.error,
            details=options.details,
        )
    out.value("refused", count)


def bury(options: Options, out: Output) -> None:
    """Make messages dead letters."""
    with client(options) as database:
        count = database.bury(
            options.lease, options.id or None, error=options.error, details=options.details
        )
    out.value("buried", count)


def release(options: Options, out: Output) -> None:
    """Release messages."""
    with client(options) as database:
        count = database.release(options.lease, options.id or None, delay=options.delay)
    out.value("released", count)


def extend(options: Options, out: Output) -> None:
    """Extend a lease."""
    with client(options) as database:
        out.value("lease_until", database.extend(options.lease, options.time))


def leases(options: Options, out: Output) -> None:
    """List the leases."""
    with connect(options) as conn, conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_sql.LEASES, {"queue": options.queue, "n": options.n}).fetchall()
    out.rows(rows, _LEASES)
    if not rows:
        check_queue(options, options.queue)
        say("no leases")
