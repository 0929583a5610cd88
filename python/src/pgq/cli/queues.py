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
    commands.add("queues", queues, "the queues and their policies", "pgq queues")
    parser = commands.add(
        "create",
        create,
        "create a queue, which receives the topic of its name",
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
        more="An empty --lane-keys removes the lanes, 0 or an empty rate a limit.\n\n",
    )
    _policy(parser)

    parser = commands.add("drop", drop, "drop a queue", "pgq drop orders --force")
    parser.add_argument("queue", help="the name of a queue")
    parser.add_argument("--force", action="store_true", help="even if it holds messages")
    for name, function, what in (
        ("pause", pause, "stop delivery from a queue, or a schedule"),
        ("resume", resume, "go on with delivery from a queue, or with a schedule"),
    ):
        parser = commands.add(
            name, function, what, f"pgq {name} orders\npgq {name} --schedule nightly"
        )
        parser.add_argument("queue", help="the name of a queue, or of a schedule")
        parser.add_argument("--schedule", action="store_true", help="a schedule, not a queue")
    commands.add("limits", limits, "the limits of queues, and how far they are used", "pgq limits")
    commands.add(
        "maintain",
        maintain,
        "do all upkeep now; queues work without it",
        """
        pgq maintain
        """,
        more="Consumers do it about once a minute, pg_cron can: call pgq.maintain()\n\n",
    )


def _policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", help="the name of a queue")
    parser.add_argument("--lane-keys", metavar="KEY,KEY", help="headers that filters ask for most")
    for name, what in (
        ("lease", "how long a claim holds its messages"),
        ("max-lease", "how long messages can be held altogether"),
        ("backoff", "delay before the first retry"),
        ("max-backoff", "the longest delay before a retry"),
        ("retention", "how long the log keeps messages"),
        ("dedup-window", "how long a dedup key counts"),
    ):
        parser.add_argument(f"--{name}", type=duration, metavar="DURATION", help=what)
    parser.add_argument("--max-attempts", type=positive, metavar="N", help="deliveries at most")
    parser.add_argument("--set-size", type=positive, metavar="N", help="messages in a row of state")
    parser.add_argument("--mode", choices=["queue", "archive"])
    parser.add_argument("--journal", choices=["all", "failures"])
    parser.add_argument(
        "--dedup",
        choices=["keep", "replace", "postpone"],
        help="what is done to a message that waits, by another with its dedup key",
    )
    parser.add_argument("--on-expiry", choices=["dead_letter", "discard"])
    parser.add_argument("--on-dead", choices=["release", "block"], help="of an ordering group")
    for name, what in (
        ("max-leased", "messages under way at a time"),
        ("burst", "messages that may come at once"),
        ("lane-max-leased", "messages of a lane under way at a time"),
        ("lane-burst", "messages of a lane that may come at once"),
    ):
        parser.add_argument(f"--{name}", type=natural, metavar="N", help=what)
    for name, what in (("rate", "messages in a time"), ("lane-rate", "the same for each lane")):
        parser.add_argument(f"--{name}", metavar="N/UNIT", help=f"{what}, such as 100/min")
    for name, what in (
        ("fair", "lanes take turns"),
        ("suggestions", "collect statistics for filters"),
    ):
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, help=what)


def queues(options: Options, out: Output) -> None:
    """List the queues."""
    with connect(options) as conn, conn.cursor(row_factory=dict_row) as cursor:
        out.rows(cursor.execute(_sql.QUEUES).fetchall(), _COLUMNS)


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
    """Stop delivery, or a schedule."""
    with client(options) as database:
        do = database.pause_schedule if options.schedule else database.pause
        tell(out, "paused", do(options.queue), "it was paused already")


def resume(options: Options, out: Output) -> None:
    """Go on with delivery, or with a schedule."""
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
    """Do all upkeep."""
    with connect(options) as conn:
        conn.add_notice_handler(lambda said: say(f"{said.severity}: {said.message_primary}"))
        conn.execute("call pgq.maintain()")
    say("done")
