"""``pgq schedule``, ``unschedule`` and ``schedules``."""

from __future__ import annotations

from typing import Any

from pgq.cli._command import Commands, Options, client, duration, json_object, json_value
from pgq.cli._output import Output, say, tell
from pgq.cli._table import span

__all__ = ["add"]

_COLUMNS = ("name", "topic", "times", "state", "last_at", "next_at", "error")


def add(commands: Commands) -> None:
    """Add the commands."""
    parser = commands.add(
        "schedule",
        schedule,
        "publish a message at regular times; an existing name changes its schedule",
        """
        pgq schedule nightly reports '{"kind": "daily"}' --cron '0 3 * * *' --time-zone Europe/Rome
        pgq schedule heartbeat health true --every 30s --missed skip
        """,
        more="Prints the next run. Claims and maintenance publish the due messages, each once.\n"
        "To pause a schedule: pgq pause --schedule NAME\n\n",
    )
    parser.add_argument("name", help="the name of the schedule")
    parser.add_argument("topic", help="the topic to publish to")
    parser.add_argument("payload", type=json_value, help="JSON")
    times = parser.add_mutually_exclusive_group(required=True)
    times.add_argument("--cron", help="minute hour day month weekday, or @daily and similar")
    times.add_argument("--every", type=duration, metavar="DURATION", help="interval, from now on")
    parser.add_argument("--time-zone", default="UTC", metavar="ZONE", help="zone of --cron (UTC)")
    parser.add_argument(
        "--missed", choices=("skip", "one", "all"), default="one",
        help="missed runs: skip them, or publish one message for all of them, or all (one)",
    )  # fmt: skip
    parser.add_argument("--headers", type=json_object, metavar="JSON")
    parser.add_argument("--priority", type=int, default=0, metavar="N", help="higher goes first")
    parser.add_argument(
        "--expires-in", type=duration, metavar="DURATION", help="lifetime of each message"
    )
    parser = commands.add(
        "unschedule",
        unschedule,
        "remove a schedule; its published messages stay",
        "pgq unschedule nightly",
    )
    parser.add_argument("name", help="the name of the schedule")
    commands.add("schedules", schedules, "list the schedules with their runs", "pgq schedules")


def schedule(options: Options, out: Output) -> None:
    """Create or change a schedule."""
    with client(options) as database:
        next_at = database.schedule(
            options.name,
            options.topic,
            options.payload,
            cron=options.cron,
            every=options.every,
            time_zone=options.time_zone,
            missed=options.missed,
            headers=options.headers,
            priority=options.priority,
            expires_in=options.expires_in,
        )
    if next_at is None and not out.as_json:
        say("it is paused: pgq resume --schedule " + options.name)
    else:
        out.value("next_at", next_at)


def unschedule(options: Options, out: Output) -> None:
    """Remove a schedule."""
    with client(options) as database:
        tell(out, "unscheduled", database.unschedule(options.name), "there is no such schedule")


def schedules(options: Options, out: Output) -> None:
    """List the schedules."""
    with client(options) as database:
        rows: list[dict[str, Any]] = [dict(row) for row in database.schedules()]
    if not out.as_json:
        for row in rows:
            every = "" if row["every"] is None else f"every {span(row['every'])}"
            row["times"] = every or f"{row['cron']} {row['time_zone']}"
            late = row["late"] is not None and row["late"].total_seconds() > 0
            row["state"] = "paused" if row["paused"] else "due" if late else ""
    out.rows(rows, _COLUMNS)
    if not rows:
        say("no schedules")
