"""``pgq queues``, ``create``, ``alter``, ``drop``, ``pause``, ``resume`` and others on queues."""

from __future__ import annotations

import argparse
from typing import Any

from psycopg.rows import dict_row

from pgq.cli import _sql
from pgq.cli._command import (
    USAGE,
    Commands,
    Failure,
    Options,
    client,
    connect,
    duration,
    natural,
    positive,
)
from pgq.cli._output import Output, say, tell

__all__ = ["add"]

_COLUMNS = (
    "queue",
    "mode",
    "paused",
    "lane_keys",
    "lease",
    "max_attempts",
    "backoff",
    "retention",
    "patterns",
)
_POLICY = (
    "lease",
    "max_attempts",
    "backoff",
    "max_backoff",
    "retention",
    "mode",
    "dedup_window",
    "max_lease",
    "dedup",
    "on_expiry",
    "set_size",
    "journal",
    "on_dead",
    "suggestions",
    "max_leased",
    "rate",
    "burst",
    "lane_max_leased",
    "lane_rate",
    "lane_burst",
    "fair",
)


def add(commands: Commands) -> None:
    """Add the commands."""
    commands.add("queues", queues, "list the queues and their policies", "pgq queues")
    parser = commands.add(
        "create",
        create,
        "create a queue that receives the topic of its name",
        """
        pgq create orders
        pgq create orders --lane-keys type,country --lease 5m --max-attempts 10
        pgq create calls --rate 100/min --max-leased 20
        """,
    )
    _policy(parser)
    parser = commands.add(
        "alter",
        alter,
        "change the given parts of a queue's policy",
        """
        pgq alter orders --lease 10m --max-attempts 5
        pgq alter orders --lane-keys type
        pgq alter calls --rate '' --burst 0 --max-leased 0
        """,
        more="An empty --lane-keys removes the lanes. 0 or an empty rate removes a limit.\n\n",
    )
    _policy(parser)

    parser = commands.add("drop", drop, "drop a queue", "pgq drop orders --force")
    parser.add_argument("queue", help="the name of a queue")
    parser.add_argument("--force", action="store_true", help="drop it even if it holds messages")
    for name, function, what in (
        ("pause", pause, "pause delivery from a queue, or a schedule"),
        ("resume", resume, "resume delivery from a queue, or a schedule"),
    ):
        parser = commands.add(
            name, function, what, f"pgq {name} orders\npgq {name} --schedule nightly"
        )
        parser.add_argument("queue", help="the name of a queue, or of a schedule")
        parser.add_argument("--schedule", action="store_true", help="a schedule, not a queue")
    commands.add("limits", limits, "list the limits of queues, and their usage", "pgq limits")
    commands.add(
        "maintain",
        maintain,
        "run maintenance now",
        """
        pgq maintain
        """,
        more="Consumers run it about once a minute, and pg_cron can: call pgq.maintain()\n"
        "Without maintenance queues work, but the log grows.\n\n",
    )


def _policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", help="the name of a queue")
    parser.add_argument("--lane-keys", metavar="KEY,KEY", help="fields that filters test most")
    for name, what in (
        ("lease", "lease duration: how long a claim holds its messages"),
        ("max-lease", "how long a message can be held with all extensions"),
        ("backoff", "delay before the first retry"),
        ("max-backoff", "the longest delay before a retry"),
        ("retention", "how long the log keeps messages"),
        ("dedup-window", "how long a dedup key is remembered"),
    ):
        parser.add_argument(f"--{name}", type=duration, metavar="DURATION", help=what)
    parser.add_argument(
        "--max-attempts", type=positive, metavar="N", help="maximum number of deliveries"
    )
    parser.add_argument(
        "--set-size", type=positive, metavar="N", help="maximum number of ids in a ready row"
    )
    parser.add_argument("--mode", choices=["queue", "archive"])
    parser.add_argument("--journal", choices=["all", "failures"])
    parser.add_argument(
        "--dedup",
        choices=["keep", "replace", "postpone"],
        help="what a second message with the same dedup key does to the waiting one",
    )
    parser.add_argument("--on-expiry", choices=["dead_letter", "discard"])
    parser.add_argument(
        "--on-dead",
        choices=["release", "block"],
        help="what a dead letter does to its ordering group",
    )
    for name, what in (
        ("max-leased", "maximum number of messages leased at a time"),
        ("burst", "messages that a rate lets through at a time, after a pause"),
        ("lane-max-leased", "maximum number of messages of a lane leased at a time"),
        ("lane-burst", "messages that a lane's rate lets through at a time"),
    ):
        parser.add_argument(f"--{name}", type=natural, metavar="N", help=what)
    for name, what in (("rate", "maximum rate"), ("lane-rate", "maximum rate per lane")):
        parser.add_argument(f"--{name}", metavar="N/UNIT", help=f"{what}, such as 100/min")
    for name, what in (
        ("fair", "lanes take turns"),
        ("suggestions", "let the header route of a message name this queue"),
    ):
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, help=what)


def queues(options: Options, out: Output) -> None:
    """List the queues."""
    with connect(options) as conn, conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_sql.QUEUES).fetchall()
    out.rows(rows, _COLUMNS)
    if not rows:
        say("no queues")


def _given(options: Options) -> dict[str, Any]:
    given = {name: getattr(options, name) for name in _POLICY}
    policy = {name: value for name, value in given.items() if value is not None}
    if options.lane_keys is not None:
        policy["lane_keys"] = [key for key in options.lane_keys.split(",") if key]
    return policy


def create(options: Options, out: Output) -> None:
    """Create a queue."""
    with client(options) as database:
        created = database.create_queue(options.queue, **_given(options))
    tell(out, "created", created, "it is there already")


def alter(options: Options, out: Output) -> None:
    """Change a queue's policy."""
    policy = _given(options)
    if not policy:
        raise Failure("alter needs something to change", "See: pgq alter --help", code=USAGE)
    with client(options, notices=True) as database:
        database.alter_queue(options.queue, **policy)
    tell(out, "altered", True, "")


def drop(options: Options, out: Output) -> None:
    """Drop a queue."""
    with client(options) as database:
        tell(out, "dropped", database.drop_queue(options.queue, force=options.force), "it is gone")


def pause(options: Options, out: Output) -> None:
    """Pause delivery, or a schedule."""
    with client(options) as database:
        do = database.pause_schedule if options.schedule else database.pause
        tell(out, "paused", do(options.queue), "it was paused already")


def resume(options: Options, out: Output) -> None:
    """Resume delivery, or a schedule."""
    with client(options) as database:
        do = database.resume_schedule if options.schedule else database.resume
        tell(out, "resumed", do(options.queue), "it was not paused")


def limits(options: Options, out: Output) -> None:
    """List the limits of queues."""
    with connect(options) as conn, conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_sql.LIMITS).fetchall()
    out.rows(rows)
    if not rows:
        say("no limits")


def maintain(options: Options, out: Output) -> None:
    """Run maintenance."""
    with connect(options) as conn:
        conn.add_notice_handler(lambda note: say(f"{note.severity}: {note.message_primary}"))
        conn.execute("call pgq.maintain()")
    say("done")
