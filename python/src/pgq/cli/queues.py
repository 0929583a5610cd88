"""``pgq queues``, ``create``, ``drop``, ``pause``, ``resume`` and ``maintain``."""

from __future__ import annotations

from psycopg.rows import dict_row

from pgq.cli import _sql
from pgq.cli._command import Commands, Options, client, connect, duration, positive
from pgq.cli._output import Output, say

__all__ = ["add"]

_COLUMNS = (
    *("queue", "mode", "paused", "lane_keys", "lease", "max_attempts", "backoff", "retention"),
    "patterns",
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
        """,
    )
    parser.add_argument("queue")
    parser.add_argument("--lane-keys", metavar="KEY,KEY", help="headers that filters ask for most")
    parser.add_argument("--lease", type=duration, help="how long a claim holds its messages")
    parser.add_argument("--max-attempts", type=positive, metavar="N", help="deliveries at most")
    parser.add_argument("--backoff", type=duration, help="delay before the first retry")
    parser.add_argument("--max-backoff", type=duration, help="the longest delay before a retry")
    parser.add_argument("--retention", type=duration, help="how long the log keeps messages")
    parser.add_argument("--mode", choices=["queue", "archive"])
    parser.add_argument("--journal", choices=["all", "failures"])

    parser = commands.add("drop", drop, "drop a queue", "pgq drop orders --force")
    parser.add_argument("queue")
    parser.add_argument("--force", action="store_true", help="even if it holds messages")
    for name, function, what in (
        ("pause", pause, "stop delivery from a queue"),
        ("resume", resume, "go on with delivery from a queue"),
    ):
        commands.add(name, function, what, f"pgq {name} orders").add_argument("queue")
    commands.add(
        "maintain",
        maintain,
        "do all upkeep now; queues work without it",
        """
        pgq maintain
        """,
        more="Consumers do it about once a minute, pg_cron can: call pgq.maintain()\n\n",
    )


def queues(options: Options, out: Output) -> None:
    """List the queues."""
    with connect(options) as conn, conn.cursor(row_factory=dict_row) as cursor:
        out.rows(cursor.execute(_sql.QUEUES).fetchall(), _COLUMNS)


def create(options: Options, out: Output) -> None:
    """Create a queue."""
    names = ("lease", "max_attempts", "backoff", "max_backoff", "retention", "mode", "journal")
    given = {name: getattr(options, name) for name in names}
    policy = {name: value for name, value in given.items() if value is not None}
    if options.lane_keys is not None:
        policy["lane_keys"] = options.lane_keys.split(",")
    with client(options) as database:
        created = database.create_queue(options.queue, **policy)
    _tell(out, "created", created, "it is there already")


def drop(options: Options, out: Output) -> None:
    """Drop a queue."""
    with client(options) as database:
        _tell(out, "dropped", database.drop_queue(options.queue, force=options.force), "it is gone")


def pause(options: Options, out: Output) -> None:
    """Stop delivery."""
    with client(options) as database:
        _tell(out, "paused", database.pause(options.queue), "it was paused already")


def resume(options: Options, out: Output) -> None:
    """Go on with delivery."""
    with client(options) as database:
        _tell(out, "resumed", database.resume(options.queue), "it was not paused")


def maintain(options: Options, out: Output) -> None:
    """Do all upkeep."""
    with connect(options) as conn:
        conn.add_notice_handler(lambda said: say(f"{said.severity}: {said.message_primary}"))
        conn.execute("call pgq.maintain()")
    say("done")


def _tell(out: Output, name: str, done: bool, else_: str) -> None:
    """Nothing has to be done twice: that it was done before is no error."""
    if out.as_json:
        out.value(name, done)
    else:
        say(name if done else else_)
