"""``pgq dlq``: dead letters."""

from __future__ import annotations

import argparse
import re
from datetime import datetime
from typing import Any, LiteralString

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from pgq.cli import _sql, _terminal
from pgq.cli._command import (
    NO,
    USAGE,
    Commands,
    Failure,
    Options,
    check_queue,
    client,
    connect,
    filter_document,
    json_value,
    positive,
)
from pgq.cli._output import Output, as_json, readable, say
from pgq.cli._table import Table, last_line, printable
from pgq.filters import Condition, F

__all__ = ["add"]

_COLUMNS = (
    "queue",
    "message_id",
    "failed_at",
    "reason",
    "error",
    "attempts",
    "replay_count",
    "headers",
    "payload",
)
_CAUSES = ("count", "queue", "reason", "cause", "first_at", "last_at", "example_id")
_ATTEMPTS = "failures"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d")


_CAUSE = "A cause is a filter over reason, error, attempts, failed_at, holder and replay_count.\n\n"


def add(commands: Commands) -> None:
    """Add the commands."""
    group = commands.group("dlq", "list dead letters, replay or discard them")
    parser = group.add(
        "list",
        list_,
        "list dead letters, the oldest first",
        """
        pgq dlq list
        pgq dlq list orders '{"type": "refund"}' -n 10
        pgq dlq list --by-cause
        """,
    )
    parser.add_argument("queue", nargs="?", help="all queues if not given")
    parser.add_argument("filter", nargs="?", type=filter_document, help="a filter document")
    parser.add_argument("-n", type=positive, default=100, help="limit (100)")
    parser.add_argument(
        "--by-cause", action="store_true", help="count by error, ignoring numbers and ids"
    )
    parser = group.add(
        "show",
        show,
        "show a dead letter: the message, the error, every attempt",
        "pgq dlq show 4711",
    )
    parser.add_argument("id", type=int, help="the id of the message")
    parser.add_argument("--queue", help="only the dead letter of this queue")

    parser = group.add(
        "replay",
        replay,
        "return dead letters to their queue, the oldest first",
        """
        pgq dlq replay orders
        pgq dlq replay orders '{"type": "refund"}' --dry-run
        pgq dlq replay orders --id 4711
        pgq dlq replay orders --cause '{"error": {"$like": "%not reachable%"}}' --per-second 50
        pgq dlq replay orders --to orders_v2 --patch '{"currency": "EUR"}'
        """,
        more=_CAUSE,
    )
    _which(parser)
    parser.add_argument("--to", metavar="QUEUE", help="put them into this queue instead")
    parser.add_argument(
        "--per-second", type=positive, metavar="N", help="messages that become due per second"
    )
    parser.add_argument(
        "--patch", type=json_value, metavar="JSON", help="change payloads: a JSON merge patch"
    )
    parser = group.add(
        "discard",
        discard,
        "delete dead letters for good",
        """
        pgq dlq discard orders '{"type": "test"}'
        pgq dlq discard orders --id 4711 --id 4712
        pgq dlq discard orders --cause '{"reason": "expired"}' --dry-run
        pgq dlq discard orders --all
        """,
        more=_CAUSE,
    )
    _which(parser)
    parser.add_argument(
        "--all", action="store_true", help="required if there is no filter, --id or --cause"
    )


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", help="the name of a queue")
    parser.add_argument("filter", nargs="?", type=filter_document, help="a filter document")
    parser.add_argument("--id", action="append", type=int, help="only this message; repeatable")
    parser.add_argument(
        "--cause", type=filter_document, metavar="FILTER", help="a filter on how it ended"
    )
    parser.add_argument("-n", type=positive, help="limit")
    parser.add_argument("--dry-run", action="store_true", help="only count")


def list_(options: Options, out: Output) -> None:
    """List dead letters, or their causes."""
    statement, columns = (
        (_sql.CAUSES, _CAUSES) if options.by_cause else (_sql.DEAD_LETTERS, _COLUMNS)
    )
    rows = _dead_letters(
        options, statement, queue=options.queue, filter=options.filter, n=options.n
    )
    out.rows(rows, columns)
    if not rows:
        check_queue(options, options.queue)
        say("no dead letters")


def show(options: Options, out: Output) -> int:
    """Show the dead letter with this id, in each queue that has it."""
    rows = _dead_letters(options, _sql.DEAD_LETTER, queue=options.queue, id=options.id)
    if not rows:
        check_queue(options, options.queue)
        raise Failure(f"message {options.id} is no dead letter", "See: pgq dlq list", code=NO)
    for row in rows:
        if out.as_json:
            out.row(row)
        else:
            _show(row, out)
    return 0


def _show(row: dict[str, Any], out: Output) -> None:
    """Print a dead letter: one line per attempt, tracebacks with their line breaks."""
    failures = row.pop(_ATTEMPTS) or []
    texts: list[tuple[str, str]] = []
    for name, value in row.items():
        if name == "details" and isinstance(value, dict):
            for key in [key for key, text in value.items() if _has_lines(text)]:
                texts.append((key, value.pop(key)))
            row[name] = value or None
        elif name == "error" and _has_lines(value):
            texts.append((name, value))
            row[name] = last_line(value).splitlines()[0]
    out.row(row)
    if failures:
        names = list(dict.fromkeys(name for failure in failures for name in failure))
        cells = [[_brief(failure.get(name)) for name in names] for failure in failures]
        print(f"\n{_ATTEMPTS}")
        _terminal.show(Table(names, cells, indent=2))
    for name, text in texts:
        lines = "\n".join(f"  {printable(line)}" for line in text.expandtabs().splitlines())
        print(f"\n{name}\n{lines}")


def _has_lines(value: object) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def _brief(value: object) -> object:
    """Return the first line of a text, at most 80 characters; a time without its fraction."""
    text = as_json(value) if isinstance(value, dict | list) else value
    if not isinstance(text, str):
        return text
    if _TIME.fullmatch(text):
        return readable(datetime.fromisoformat(text))
    return last_line(text).split("\n", 1)[0][:80]


def replay(options: Options, out: Output) -> None:
    """Replay dead letters."""
    with client(options) as database:
        count = database.replay(
            options.queue,
            _filter(options),
            options.n,
            dry_run=options.dry_run,
            cause=options.cause,
            to_queue=options.to,
            per_second=options.per_second,
            patch=options.patch,
        )
    out.value("replayed", count)


def discard(options: Options, out: Output) -> None:
    """Delete dead letters."""
    wanted = _filter(options)
    if wanted is None and options.cause is None and not options.all:
        raise Failure("discard needs a filter, --id, --cause or --all", code=USAGE)
    with client(options) as database:
        count = database.discard(
            options.queue, wanted, options.n, dry_run=options.dry_run, cause=options.cause
        )
    out.value("discarded", count)


def _filter(options: Options) -> Condition | None:
    wanted = None if options.filter is None else Condition(options.filter)
    if options.id is None:
        return wanted
    named = F.msg.id.in_(options.id)
    return named if wanted is None else wanted & named


def _dead_letters(
    options: Options,
    statement: LiteralString,
    *,
    queue: str | None = None,
    id: int | None = None,
    filter: dict[str, Any] | None = None,
    n: int | None = None,
) -> list[dict[str, Any]]:
    wanted = None if filter is None else Jsonb(filter)
    with connect(options) as conn, conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            statement, {"queue": queue, "id": id, "filter": wanted, "n": n}
        ).fetchall()
