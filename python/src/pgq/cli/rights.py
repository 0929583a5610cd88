"""``pgq grant``, ``revoke`` and ``rights``."""

from __future__ import annotations

from psycopg.rows import dict_row

from pgq.cli import _sql
from pgq.cli._command import Commands, Options, check_queue, connect
from pgq.cli._output import Output, say, tell

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Add the commands."""
    for name, function, what in (
        ("grant", grant, "grant a role and its members a right on a queue"),
        ("revoke", revoke, "revoke a right on a queue from a role"),
    ):
        parser = commands.add(
            name,
            function,
            what,
            f"""
            pgq {name} orders shop_app publish
            pgq {name} orders billing_app consume
            """,
            more="publish  to publish to every topic that the queue receives\n"
            "consume  to claim from the queue and to read its state\n"
            "admin    both, and to alter, pause, subscribe, purge, replay and drop the queue\n\n",
        )
        parser.add_argument("queue", help="the name of a queue")
        parser.add_argument("role", help="a role of the database")
        parser.add_argument("right", choices=("publish", "consume", "admin"))
    parser = commands.add(
        "rights",
        rights,
        "list the rights of roles on queues",
        """
        pgq rights
        pgq rights orders
        """,
    )
    parser.add_argument("queue", nargs="?", help="all queues if not given")


def grant(options: Options, out: Output) -> None:
    """Grant a right."""
    tell(out, "granted", _change(_sql.GRANT, options), "it has the right already")


def revoke(options: Options, out: Output) -> None:
    """Revoke a right."""
    tell(out, "revoked", _change(_sql.REVOKE, options), "it does not have the right")


def _change(statement: _sql.Statement, options: Options) -> bool:
    with connect(options) as conn:
        ((done,),) = conn.execute(statement, [options.queue, options.role, options.right])
    return bool(done)


def rights(options: Options, out: Output) -> None:
    """List the rights."""
    with connect(options) as conn, conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_sql.RIGHTS, {"queue": options.queue}).fetchall()
    out.rows(rows)
    if not rows:
        check_queue(options, options.queue)
        say("no rights are granted")
