"""``pgq stats`` and ``pgq history``."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from pgq._sync.client import Client
from pgq.cli import _terminal
from pgq.cli._command import NO, Commands, Failure, Options, client
from pgq.cli._output import Output, say
from pgq.cli._table import Table

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["add"]

# Counts and rates, with the titles of their columns.
_COUNTS = {
    "ready": "ready",
    "scheduled": "sched",
    "leased": "leased",
    "waiting": "wait",
    "dead": "dead",
}
_RATES = {
    "published_per_second": "in/s",
    "acked_per_second": "ack/s",
    "failed_per_second": "fail/s",
}
_TITLES = ("queue", *_COUNTS.values(), "oldest", *_RATES.values(), "state")
# Columns that are shown only if a queue has a value.
_SELDOM = ("sched", "wait", "state")
_HISTORY = ("at", "queue", "event", "attempt", "holder", "client", "lease_id", "note")


def add(commands: Commands) -> None:
    """Add the commands."""
    parser = commands.add(
        "stats",
        stats,
        "show counts, ages and rates of the queues",
        """
        pgq stats
        pgq stats orders --watch
        pgq stats --watch 10 --json >> stats.jsonl
        """,
        more="Rates are those of the last one to two minutes; - means that there is no count. A "
        "large count is\nan estimate, and begins with ~. 120k is 120,000; --json has all digits. "
        "sched (due later), wait\n(for their turn in a group) and state are shown only if a queue "
        "has such messages.\n\n",
    )
    parser.add_argument("queue", nargs="*", help="all queues if not given")
    parser.add_argument(
        "--watch", "-w", nargs="?", type=float, const=2.0, metavar="SECONDS",
        help="refresh until Ctrl-C (every 2 s), with arrows for rising and falling counts",
    )  # fmt: skip
    parser = commands.add(
        "history",
        history,
        "list the events of a message, oldest first",
        "pgq history 4711",
    )
    parser.add_argument("id", type=int, help="the id of the message")


def stats(options: Options, out: Output) -> None:
    """Show the statistics once, or until interrupted."""
    with client(options) as database:
        rows = _rows(database, options.queue)
        if options.watch is None:
            _show(rows, out)
            return
        terminal = None if out.as_json else _terminal.console()
        try:
            if terminal is not None:
                _watch(terminal, database, options)
            while True:
                _show([{"at": datetime.now(UTC)} | row for row in rows], out)
                sys.stdout.flush()
                time.sleep(options.watch)
                rows = _rows(database, options.queue)
        except KeyboardInterrupt:
            return


def _watch(terminal: Console, database: Client, options: Options) -> NoReturn:
    """Show a live view: each table replaces the last one."""
    before: dict[str, dict[str, Any]] = {}
    with _terminal.live(terminal) as view:
        while True:
            rows = _rows(database, options.queue)
            # Four lines are not rows: the time, an empty line, and two lines of titles.
            hidden = len(rows) - max(terminal.height - 4, 1)
            more = f" · {hidden} more: name some queues to see them" if hidden > 0 else ""
            shown = _table(rows[: terminal.height], before)
            now = f"{datetime.now():%H:%M:%S}{more}\n"
            view.update(_terminal.stacked(now, shown), refresh=True)
            before = {row["queue"]: row for row in rows}
            time.sleep(options.watch)


def _rows(database: Client, names: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [dict(row) for row in database.queue_stats()]
    missing = set(names) - {row["queue"] for row in rows}
    if missing:
        raise Failure(f"no such queue: {', '.join(sorted(missing))}", "See: pgq queues")
    return [row for row in rows if not names or row["queue"] in names]


def _show(rows: list[dict[str, Any]], out: Output) -> None:
    if out.as_json:
        out.rows(rows)
    elif rows:
        _terminal.show(_table(rows, {}))
    else:
        say("no queues")


def _table(rows: list[dict[str, Any]], before: dict[str, dict[str, Any]]) -> Table:
    """Return the table, with an arrow for each count that differs from the last one."""
    shown = [_readable(row, before.get(row["queue"])) for row in rows]
    titles = [
        title
        for title in _TITLES
        if title not in _SELDOM or any(row[title].strip() not in ("", "0") for row in shown)
    ]
    cells = [[row[title] for title in titles] for row in shown]
    return Table(titles, cells, right={*titles} - {"queue", "state"}, shortest=6)


def _readable(row: dict[str, Any], before: dict[str, Any] | None) -> dict[str, str]:
    estimated = row.get("estimated") or ()
    shown = {"queue": row["queue"], "oldest": _age(row["oldest_age"]), "state": _state(row)}
    for name, title in _COUNTS.items():
        about = "~" if name in estimated else ""
        trend = "" if before is None else _trend(before[name], row[name])
        shown[title] = f"{about}{_short(row[name])}{trend}"
    for name, title in _RATES.items():
        # None means that there is no count, or that the audit log does not record it.
        shown[title] = "-" if row[name] is None else _short(row[name])
    return shown


def _state(row: dict[str, Any]) -> str:
    """Return paused, the mode and the relay; empty for a queue that delivers without a relay."""
    state = "paused" if row["paused"] else "" if row["mode"] == "queue" else row["mode"]
    relay = "" if row["relay"] is None else f"relay {row['relay']}"
    return ", ".join(filter(None, [state, relay]))


def _trend(was: int, now: int) -> str:
    utf = (sys.stdout.encoding or "").lower().startswith("utf")
    up, down = ("↑", "↓") if utf else ("+", "-")
    return up if now > was else down if now < was else " "


def _short(number: float) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= 100 * 10**3 and number >= size:
            part = number / size
            return f"{part:.0f}{unit}" if part >= 100 else f"{part:.1f}{unit}"
    return f"{number:.1f}" if isinstance(number, float) and number < 1000 else f"{number:.0f}"


def _age(age: timedelta | None) -> str:
    if age is None:
        return ""
    seconds = age.total_seconds()
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02}h"
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds:02}s"


def history(options: Options, out: Output) -> int:
    """List the events of a message."""
    with client(options) as database:
        rows = database.history(options.id)
    if not rows:
        raise Failure(
            f"nothing is known of message {options.id}",
            "The log forgets messages that are done when the queues' retention is over.",
            code=NO,
        )
    out.rows(rows, _HISTORY)
    return 0
