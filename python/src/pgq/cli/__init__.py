"""The command line ``pgq``: each command is a call of a SQL function."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import psycopg

from pgq import __version__
from pgq.cli import (
    bench,
    completion,
    dashboard,
    dead_letters,
    doctor,
    filters,
    install,
    lease,
    metrics,
    operate,
    publish,
    queues,
    relay,
    rights,
    schedules,
    spark,
    stats,
    subscriptions,
    work,
)
from pgq.cli._command import (
    FAILED,
    UNREACHABLE,
    USAGE,
    Commands,
    Failure,
    Parser,
)
from pgq.cli._output import Output, complain
from pgq.errors import PgqError

__all__ = ["main", "parser"]

# SQLSTATEs of a database without pgq, and of a role without rights.
_NOT_INSTALLED = ("3F000", "42883", "42P01")
_CLOSED = "42501"

# What the hints of the database say, as a command or option.
_COMMANDS = (
    ("pgq.create_queue(queue)", "pgq create QUEUE"),
    ("pgq.subscribe(queue, pattern)", "pgq subscribe QUEUE PATTERN"),
    ("pgq.alter_queue", "pgq alter"),
    ("select * from pgq.schedules", "pgq schedules"),
    ("force => true", "--force"),
)

_EPILOG = """\
the database: --dsn, else PGQ_DSN, else the PG* variables of libpq
exit codes:   0 done · 1 refused by the database · 2 wrong usage · 3 negative result (nothing
              to claim, no match, doctor or findings has found a problem) · 4 the database
              cannot be reached · 130 interrupted

pgq COMMAND --help has examples."""


def parser() -> Parser:
    """Return the parser of all commands."""
    commands = Commands("Message queues inside PostgreSQL.", _EPILOG)
    commands.parser.add_argument("--version", action="version", version=f"pgq {__version__}")
    modules = (
        install,
        queues,
        subscriptions,
        rights,
        publish,
        schedules,
        lease,
        work,
        stats,
        operate,
        dead_letters,
        filters,
        doctor,
        spark,
        relay,
        metrics,
        dashboard,
        bench,
        completion,
    )
    for module in modules:
        module.add(commands)
    return commands.parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    options = parser().parse_args(arguments)
    try:
        code: int = options.run(options, Output(as_json=options.json)) or 0
        sys.stdout.flush()
        return code
    except Failure as error:
        complain(str(error), error.hint)
        return error.code
    except PgqError as error:
        complain(error.message, error.detail, _as_command(error.hint))
        return FAILED
    except psycopg.Error as error:
        return _refused(error)
    except BrokenPipeError:
        # The reader of our output has closed the pipe: Python must not flush into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return 130


def _as_command(hint: str | None) -> str | None:
    for function, command in _COMMANDS:
        hint = hint and hint.replace(function, command)
    return hint


def _refused(error: psycopg.Error) -> int:
    diagnostic = error.diag
    hint = diagnostic.message_hint
    if error.sqlstate in _NOT_INSTALLED:
        hint = hint or "Is pgq in this database? Try: pgq install"
    if error.sqlstate == _CLOSED:
        hint = hint or "See what is missing: pgq doctor --role ROLE, as the owner of pgq"
    message = diagnostic.message_primary or str(error).strip()
    complain(message, diagnostic.message_detail, _as_command(hint))
    if isinstance(error, psycopg.OperationalError) and error.sqlstate in (None, "57P01", "57P03"):
        return UNREACHABLE
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        return USAGE  # libpq cannot parse the connection string
    return FAILED
