"""``pgq stats`` and ``pgq history``."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import Any

from pgq.cli._command import NO, Commands, Failure, Options, client
from pgq.cli._output import Output
from pgq.client import Client

__all__ = ["add"]

_COLUMNS = {
    "queue": "queue",
    "ready": "ready",
    "scheduled": "scheduled",
    "leased": "leased",
    "waiting": "waiting",
    "dead": "dead",
    "oldest_age": "oldest",
    "published_per_second": "in/s",
    "acked_per_second": "acked/s",
    "failed_per_second": "failed/s",
    "state": "state",
    "relay": "relay",
}
_CLEAR = "\x1b[H\x1b[J"


def add(commands: Commands) -> None:
    """Add the commands."""
    parser = commands.add(
        "stats",
        stats,
        "how the queues are doing",
        """
        pgq stats
        pgq stats orders --watch
        pgq stats --watch 10 --json >> stats.jsonl
        """,
        more="Rates are those of the last minute. A count above some hundred rows of state is an "
        "estimate:\nit begins with ~.\n\n",
    )
    parser.add_argument("queue", nargs="*", help="some queues; else all")
    parser.add_argument(
        *("--watch", "-w"), nargs="?", type=float, const=2.0, metavar="SECONDS",
        help="again and again, until interrupted (every 2 s)",
    )  # fmt: skip
    parser = commands.add(
        "history",
        history,
        "what happened to a message, oldest first",
        "pgq history 4711",
    )
    parser.add_argument("id", type=int, help="the id of the message")


def stats(options: Options, out: Output) -> None:
    """Show the statistics once, or until interrupted."""
    with client(options) as database:
        if options.watch is None:
            _show(_rows(database, options.queue), out)
            return
        try:
            while True:
                rows = _rows(database, options.queue)
                if sys.stdout.isatty() and not out.as_json:
                    print(_CLEAR + f"{datetime.now():%H:%M:%S}\n")
                _show([{"at": datetime.now(UTC)} | row for row in rows], out)
                sys.stdout.flush()
                time.sleep(options.watch)
        except KeyboardInterrupt:
            return


def _rows(database: Client, names: list[str]) -> list[dict[str, Any]]:
    rows = database.queue_stats()
    missing = set(names) - {row["queue"] for row in rows}
    if missing:
        raise Failure(f"no such queue: {', '.join(sorted(missing))}", "See: pgq queues")
    return [row for row in rows if not names or row["queue"] in names]


def _show(rows: list[dict[str, Any]], out: Output) -> None:
    if not out.as_json:
        rows = [_readable(row) for row in rows]
    out.rows(rows, list(_COLUMNS.values()))


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    row = row | {"state": "paused" if row["paused"] else row["mode"]}
    shown = {title: row[name] for name, title in _COLUMNS.items()}
    if not row["exact"]:
        shown |= {name: f"~{shown[name]}" for name in ("ready", "scheduled", "leased", "dead")}
    return shown


def history(options: Options, out: Output) -> int:
    """Show what happened to a message."""
    with client(options) as database:
        rows = database.history(options.id)
    if not rows:
        raise Failure(
            f"nothing is known of message {options.id}",
            "The log forgets messages that are done when the queues' retention is over.",
            code=NO,
        )
    out.rows(rows)
    return 0
