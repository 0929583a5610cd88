"""``pgq doctor`` and ``pgq findings``."""

from __future__ import annotations

import argparse
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row

from pgq import __version__
from pgq._shared import sql
from pgq.cli._command import NO, Commands, Options, check_queue, client, connect, duration
from pgq.cli._output import Output, readable, say
from pgq.cli._table import Line
from pgq.cli._terminal import show
from pgq.cli.checks import CHECKS, DEEP, FINDINGS, OTHERS, STATE

__all__ = ["add"]

_TIMEOUT = "set local statement_timeout = '60 s'"


def add(commands: Commands) -> None:
    """Add the commands."""
    names = [check.name for check in CHECKS]
    parser = commands.add(
        "doctor",
        doctor,
        "find problems, and print their cures; exit code 3 if there are any",
        """
        pgq doctor
        pgq doctor --only snapshot --only leases --json
        pgq doctor --role shop_app
        """,
        more="Run it as the owner of pgq, with pg_read_all_stats to see the sessions of others.\n"
        + "".join(f"  {check.name:<11}{check.title}\n" for check in (*CHECKS, DEEP))
        + "\n",
    )
    parser.add_argument("--only", action="append", choices=names, help="run this check; repeatable")
    parser.add_argument("--deep", action="store_true", help="also verify the stored state; slow")
    _what(parser)
    parser = commands.add(
        "findings",
        findings,
        "list the problems, the worst first; exit code 3 if there are any",
        """
        pgq findings
        pgq findings orders --severity critical --json
        """,
        more="Prints pgq.findings(), which doctor, the web page and alerts show, too.\n\n",
    )
    parser.add_argument("queue", nargs="?", help="all queues and the database if not given")
    parser.add_argument(
        "--severity",
        action="append",
        choices=("critical", "warning", "info"),
        help="only this severity; repeatable",
    )
    _what(parser)


def _what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--role", help="check whether this role can publish and consume")
    parser.add_argument(
        "--snapshot-age",
        type=duration,
        metavar="DURATION",
        default=timedelta(minutes=5),
        help="the age from which a transaction is long-running (5m)",
    )


def doctor(options: Options, out: Output) -> int:
    """Run the checks; return the exit code."""
    names = [check.name for check in CHECKS if not options.only or check.name in options.only]
    with connect(options) as conn:
        with suppress(psycopg.errors.InsufficientPrivilege):
            conn.execute(sql.VERSION)  # raises if the database does not have pgq
        found = [*_versions(conn), *_findings(conn, options.role, options.snapshot_age)]
        if options.deep:
            names.append(DEEP.name)
            found += _state(conn)
    rows = []
    for check in (*CHECKS, DEEP):
        if check.name in names:
            mine = [row for row in found if row["check"] == check.name]
            rows += mine or [_row(check.name, "ok", None, check.title, None)]
    if out.as_json:
        out.rows(rows)
    else:
        for row in rows:
            _show(row)
    return NO if any(row["verdict"] == "problem" for row in rows) else 0


def findings(options: Options, out: Output) -> int:
    """Print the findings; return the exit code."""
    with client(options) as database:
        rows = [
            row
            for row in database.findings(options.snapshot_age, options.role)
            if options.queue in (None, row.queue)
            and (not options.severity or row.severity in options.severity)
        ]
    if out.as_json:
        out.rows(rows)
    else:
        for row in rows:
            queue = "" if row.queue is None else f"queue {row.queue}: "
            since = "" if row.since is None else f", since {readable(row.since)}"
            severity = row.severity
            show(Line(f"{severity:<8}", f"{queue}{row.detail}{since}", meaning=severity))
            if row.cure is not None:
                show(Line(" " * 8, f"cure: {row.cure}"))
    if not rows:
        check_queue(options, options.queue)
        say("nothing is found")
    return NO if rows else 0


def _row(
    check: str, verdict: str, subject: str | None, finding: str, cure: str | None, **more: Any
) -> dict[str, Any]:
    return {
        "check": check,
        "verdict": verdict,
        "subject": subject,
        "finding": finding,
        "cure": cure,
        "severity": more.get("severity"),
        "since": more.get("since"),
        "name": more.get("name"),
    }


def _versions(conn: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    try:
        with conn.transaction():
            ((theirs,),) = conn.execute(sql.VERSION).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        return []
    if theirs == __version__:
        return []
    older = [int(n) for n in theirs.split(".")] < [int(n) for n in __version__.split(".")]
    cure = "pgq install" if older else f"pip install pgq-client=={theirs}"
    finding = f"the database has version {theirs}, this client is {__version__}"
    return [_row("version", "problem", "pgq", finding, cure, severity="critical")]


def _findings(
    conn: psycopg.Connection[Any], role: str | None, snapshot_age: timedelta
) -> list[dict[str, Any]]:
    groups = {name: check.name for check in CHECKS for name in check.findings}
    try:
        with conn.transaction(), conn.cursor(row_factory=dict_row) as cursor:
            cursor.execute(_TIMEOUT)
            cursor.execute(FINDINGS, {"role": role, "snapshot_age": snapshot_age})
            found = cursor.fetchall()
            cursor.execute(OTHERS)
            hidden = cursor.fetchall()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.QueryCanceled) as error:
        message = error.diag.message_primary or str(error)
        cure = "ask as the owner of pgq"
        return [
            _row(check.name, "unknown", "this check", message, cure)
            for check in CHECKS
            if check.findings and check.name != "version"
        ]
    rows = [
        _row(
            groups.get(row["finding"], "others"),
            "problem",
            None if row["queue"] is None else f"queue {row['queue']}",
            row["detail"],
            row["cure"],
            severity=row["severity"],
            since=row["since"],
            name=row["finding"],
        )
        for row in found
    ]
    for row in hidden:
        rows.append(
            _row("snapshot", "unknown", "sessions of other roles", "not visible", row["cure"])
        )
    return rows


def _state(conn: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    cure = "this is a defect of pgq: please report it"
    with conn.transaction(), conn.cursor(row_factory=dict_row) as cursor:
        cursor.execute(STATE)
        return [
            _row(
                "state",
                "problem",
                f"queue {row['queue']}",
                row["detail"],
                cure,
                severity="critical",
            )
            for row in cursor.fetchall()
        ]


def _show(row: dict[str, Any]) -> None:
    finding = row["finding"] if row["subject"] is None else f"{row['subject']}: {row['finding']}"
    meaning = row["severity"] or row["verdict"]
    show(Line(f"{row['verdict']:<8}", f"{row['check']:<11} {finding}", meaning=meaning))
    if row["cure"] is not None:
        show(Line(" " * 20, f"cure: {row['cure']}"))
