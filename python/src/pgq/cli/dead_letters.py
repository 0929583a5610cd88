"""``pgq dlq``: dead letters."""

from __future__ import annotations

import argparse
from typing import Any

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from pgq.cli import _sql
from pgq.cli._command import (
    NO,
    USAGE,
    Commands,
    Failure,
    Options,
    client,
    connect,
    filter_document,
    positive,
)
from pgq.cli._output import Output, say
from pgq.filters import Condition, F

__all__ = ["add"]

_COLUMNS = (
    *("queue", "message_id", "failed_at", "reason", "error", "attempts", "replay_count"),
    *("headers", "payload"),
)


def add(commands: Commands) -> None:
    """Add the commands."""
    group = commands.group("dlq", "look at dead letters, replay or discard them")
    parser = group.add(
        "list",
        list_,
        "dead letters, the oldest first",
        """
        pgq dlq list
        pgq dlq list orders '{"type": "refund"}' -n 10
        """,
    )
    parser.add_argument("queue", nargs="?", help="all queues if not given")
    parser.add_argument("filter", nargs="?", type=filter_document)
    parser.add_argument("-n", type=positive, default=100, help="at most so many (100)")
    parser = group.add(
        "show",
        show,
        "all of a dead letter: the message, why it failed, every attempt",
        "pgq dlq show 4711",
    )
    parser.add_argument("id", type=int, help="the id of the message")
    parser.add_argument("--queue", help="if several queues have it")

    parser = group.add(
        "replay",
        replay,
        "put dead letters back into their queue, the oldest first",
        """
        pgq dlq replay orders
        pgq dlq replay orders '{"type": "refund"}' --dry-run
        pgq dlq replay orders --id 4711
        """,
    )
    _which(parser)
    parser = group.add(
        "discard",
        discard,
        "delete dead letters for good",
        """
        pgq dlq discard orders '{"type": "test"}'
        pgq dlq discard orders --id 4711 --id 4712
        pgq dlq discard orders --all
        """,
    )
    _which(parser)
    parser.add_argument("--all", action="store_true", help="needed without a filter and an id")


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue")
    parser.add_argument("filter", nargs="?", type=filter_document)
    parser.add_argument("--id", action="append", type=int, help="only this message; repeatable")
    parser.add_argument("-n", type=positive, help="at most so many")
    parser.add_argument("--dry-run", action="store_true", help="only count")


def list_(options: Options, out: Output) -> None:
    """List dead letters."""
    rows = _dead_letters(options, queue=options.queue, filter=options.filter, n=options.n)
    out.rows(rows, _COLUMNS)
    if not rows:
        say("no dead letters")


def show(options: Options, out: Output) -> int:
    """Show dead letters with this id, one of each queue that has it."""
    rows = _dead_letters(options, queue=options.queue, id=options.id)
    if not rows:
        raise Failure(f"message {options.id} is no dead letter", "See: pgq dlq list", code=NO)
    for row in rows:
        out.row(row)
    return 0


def replay(options: Options, out: Output) -> None:
    """Put dead letters back."""
    with client(options) as database:
        count = database.replay(options.queue, _filter(options), options.n, dry_run=options.dry_run)
    out.value("replayed", count)


def discard(options: Options, out: Output) -> None:
    """Delete dead letters."""
    wanted = _filter(options)
    if wanted is None and not options.all:
        raise Failure("discard needs a filter, --id or --all", code=USAGE)
    with client(options) as database:
        count = database.discard(options.queue, wanted, options.n, dry_run=options.dry_run)
    out.value("discarded", count)


def _filter(options: Options) -> Condition | None:
    wanted = None if options.filter is None else Condition(options.filter)
    if options.id is None:
        return wanted
    named = F.msg.id.in_(options.id)
    return named if wanted is None else wanted & named


def _dead_letters(
    options: Options,
    *,
    queue: str | None = None,
    id: int | None = None,
    filter: dict[str, Any] | None = None,
    n: int | None = None,
) -> list[dict[str, Any]]:
    wanted = None if filter is None else Jsonb(filter)
    with connect(options) as conn, conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            _sql.DEAD_LETTERS, {"queue": queue, "id": id, "filter": wanted, "n": n}
        ).fetchall()
