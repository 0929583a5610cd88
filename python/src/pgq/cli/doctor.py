"""``pgq doctor``."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg

from pgq import __version__, _sql
from pgq.cli._command import NO, Commands, Options, connect, duration
from pgq.cli._output import Output
from pgq.cli.checks import CHECKS, DEEP, Check

__all__ = ["add"]

_PATIENCE = "set local statement_timeout = '60 s'"


def add(commands: Commands) -> None:
    """Add the command."""
    names = [check.name for check in CHECKS]
    parser = commands.add(
        "doctor",
        doctor,
        "look for what goes wrong, and say how to cure it; exit code 3 if something does",
        """
        pgq doctor
        pgq doctor --only snapshot --only leases --json
        pgq doctor --role shop_app
        """,
        more="Run it as the owner of pgq, with pg_read_all_stats to see the sessions of others.\n"
        + "".join(f"  {check.name:<11}{check.title}\n" for check in (*CHECKS, DEEP))
        + "\n",
    )
    parser.add_argument("--only", action="append", choices=names, help="some checks; repeatable")
    parser.add_argument("--deep", action="store_true", help="verify the stored state too: slow")
    parser.add_argument("--role", help="may this role publish and consume?")
    parser.add_argument(
        "--snapshot-age",
        type=duration,
        default=timedelta(minutes=5),
        help="from when on a snapshot is old (5m)",
    )


def doctor(options: Options, out: Output) -> int:
    """Make all checks; return whether all is well as the exit code."""
    values = {
        "version": __version__,
        "role": options.role,
        "snapshot_age": options.snapshot_age,
    }
    checks = [check for check in CHECKS if not options.only or check.name in options.only]
    if options.deep:
        checks.append(DEEP)
    with connect(options) as conn:
        with suppress(psycopg.errors.InsufficientPrivilege):
            conn.execute(_sql.VERSION)  # without pgq there is nothing to look at
        rows = [row for check in checks for row in _examine(conn, check, values)]
    if out.as_json:
        out.rows(rows)
    else:
        for row in rows:
            print(_readable(row))
    return NO if any(row["verdict"] == "problem" for row in rows) else 0


def _examine(
    conn: psycopg.Connection[Any], check: Check, values: dict[str, Any]
) -> list[dict[str, Any]]:
    names = ("verdict", "subject", "finding", "cure")
    try:
        with conn.transaction():
            conn.execute(_PATIENCE)
            found = conn.execute(check.query, values).fetchall()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.QueryCanceled) as error:
        found = [("unknown", "this check", error.diag.message_primary, "ask as the owner of pgq")]
    found = found or [("ok", None, check.title, None)]
    return [{"check": check.name} | dict(zip(names, row, strict=True)) for row in found]


def _readable(row: dict[str, Any]) -> str:
    finding = row["finding"] if row["subject"] is None else f"{row['subject']}: {row['finding']}"
    line = f"{row['verdict']:<8} {row['check']:<11} {finding}"
    return line if row["cure"] is None else f"{line}\n{'':<20} cure: {row['cure']}"
