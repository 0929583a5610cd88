"""Code that all commands share: parsers, types of arguments, connections."""

from __future__ import annotations

import argparse
import difflib
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NoReturn

import psycopg

from pgq import durations
from pgq._shared import sql
from pgq._sync.client import Client
from pgq.cli._output import Output, complain, say
from pgq.logging import JsonFormatter

__all__ = [
    "FAILED",
    "NO",
    "UNREACHABLE",
    "USAGE",
    "Commands",
    "Failure",
    "Options",
    "Parser",
    "add_log",
    "check_queue",
    "client",
    "connect",
    "duration",
    "filter_document",
    "json_object",
    "json_value",
    "moment",
    "natural",
    "positive",
    "set_log",
]

FAILED = 1
USAGE = 2
NO = 3
UNREACHABLE = 4

Options = argparse.Namespace
Run = Callable[[Options, Output], int | None]


class Failure(Exception):
    """An error that ends a command, with a hint for the cure and an exit code."""

    def __init__(self, message: str, hint: str | None = None, *, code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


# Command names of other queue systems, and ours for the same purpose.
_OTHER_WORDS = {
    "list": "queues",
    "ls": "queues",
    "new": "create",
    "set": "alter",
    "grants": "rights",
    "send": "publish",
    "put": "publish",
    "push": "publish",
    "enqueue": "publish",
    "receive": "claim",
    "get": "claim",
    "pop": "claim",
    "dequeue": "claim",
    "read": "peek",
    "delete": "drop",
    "rm": "drop",
    "remove": "drop",
    "empty": "purge",
    "truncate": "purge",
    "redrive": "dlq replay",
    "dead": "dlq list",
    "show": "history",
    "log": "history",
    "status": "stats",
    "top": "stats",
    "watch": "stats",
    "health": "doctor",
    "cron": "schedule",
    "work": "consume",
    "worker": "consume",
    "run": "consume",
    "inflight": "leases",
}
_UNKNOWN = re.compile(r"argument COMMAND: invalid choice: '(.*?)' \(choose from", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """A parser that suggests commands and options for unknown ones."""

    commands: Mapping[str, Parser] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        # argparse would accept each unique prefix: `drop --f` would be `drop --force`.
        super().__init__(*args, **options | {"allow_abbrev": False})

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse; a command refuses what it does not know, and suggests similar options."""
        namespace, rest = super().parse_known_args(args, namespace)
        if rest and self.commands is None:
            self._refuse(rest[0].partition("=")[0])
        return namespace, rest

    def _refuse(self, word: str) -> NoReturn:
        options = [name for action in self._actions for name in action.option_strings]
        places = [action for action in self._actions if not action.option_strings]
        near = difflib.get_close_matches(word, options, 1, 0.6)
        hint = f"Did you mean {near[0]}?" if near else f"All options: {self.prog} --help"
        if word in {f"--{action.dest}" for action in places}:
            names = [f"[{a.dest}]" if a.nargs == "?" else a.dest for a in places]
            hint = f"It is given without a name: {self.prog} {' '.join(names)}"
        kind = "option" if word.startswith("-") else "argument"
        complain(f"no such {kind}: {self.prog} {word}", hint)
        raise SystemExit(USAGE)

    def error(self, message: str) -> NoReturn:
        """Print the error and exit; for an unknown command, suggest similar ones."""
        unknown = _UNKNOWN.search(message)
        if unknown is None:
            super().error(message)
        word = unknown[1]
        names = [name.removeprefix(f"{self.prog} ") for name in self.names()]
        last = {name.split()[-1]: name for name in reversed(names)}
        meant = [_OTHER_WORDS[word]] if _OTHER_WORDS.get(word) in names else []
        meant += [last[near] for near in difflib.get_close_matches(word, last, 3, 0.7)]
        hint = " or ".join(f"{self.prog} {name}" for name in dict.fromkeys(meant))
        complain(
            f"no such command: {self.prog} {word}",
            f"Did you mean {hint}?" if hint else f"All commands: {self.prog} --help",
        )
        raise SystemExit(USAGE)

    def names(self) -> Iterator[str]:
        """Return the names of all commands below this one."""
        if self.commands is None:
            yield self.prog
        for parser in (self.commands or {}).values():
            yield from parser.names()


class Commands:
    """The commands, or those of a group."""

    def __init__(self, description: str, epilog: str = "", parser: Parser | None = None) -> None:
        if parser is None:
            parser = Parser(
                "pgq",
                description=description,
                epilog=epilog,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            _common(parser, dsn=os.environ.get("PGQ_DSN", ""), json=False)
        self.parser = parser
        self._all = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
        parser.commands = self._all.choices

    def group(self, name: str, description: str) -> Commands:
        """Add a command that has commands of its own."""
        parser = self._all.add_parser(name, help=description, description=description + ".")
        return Commands(description, parser=parser)

    def add(
        self, name: str, run: Run, description: str, examples: str, more: str = ""
    ) -> argparse.ArgumentParser:
        """Add a command."""
        lines = "\n".join(f"  {line.strip()}" for line in examples.strip().splitlines())
        parser = self._all.add_parser(
            name,
            help=description,
            description=f"{description[0].upper()}{description[1:]}.",
            epilog=f"{more}examples:\n{lines}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        # Without a default here, so that a value given before the command is kept.
        _common(parser, dsn=argparse.SUPPRESS, json=argparse.SUPPRESS)
        parser.set_defaults(run=run)
        return parser


def _common(parser: argparse.ArgumentParser, *, dsn: Any, json: Any) -> None:
    parser.add_argument("--dsn", default=dsn, help="connection string or URL of the database")
    parser.add_argument(
        "--json", action="store_true", default=json, help="print JSON, one line per row"
    )


def connect(options: Options) -> psycopg.Connection[Any]:
    """Connect to the database of the options; each statement is a transaction."""
    return psycopg.connect(
        options.dsn,
        autocommit=True,
        fallback_application_name="pgq",
        prepare_threshold=None,  # a pooler may share sessions
    )


def check_queue(options: Options, queue: str | None) -> None:
    """Refuse the name of a queue that does not exist, or that the role cannot see."""
    if queue is None:
        return
    with connect(options) as conn:
        names = [name for (name,) in conn.execute(sql.QUEUE_NAMES)]
    if queue not in names:
        near = difflib.get_close_matches(queue, names, 1)
        hint = f'Did you mean "{near[0]}"?' if near else "See: pgq queues"
        raise Failure(f'queue "{queue}" does not exist', hint)


class client:
    """A client on a connection of its own, for a ``with`` block.

    :param notices: print the notices of the server to stderr.
    """

    def __init__(self, options: Options, *, notices: bool = False) -> None:
        self._conn = connect(options)
        if notices:
            self._conn.add_notice_handler(_notice)

    def __enter__(self) -> Client:
        return Client(self._conn)

    def __exit__(self, *_: object) -> None:
        self._conn.close()


def _notice(diagnostic: psycopg.errors.Diagnostic) -> None:
    say(f"{(diagnostic.severity or 'notice').lower()}: {diagnostic.message_primary}")


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add the options of logging, for a long-running command."""
    parser.add_argument(
        "--log", choices=("text", "json"), default="text", help="format of the log on stderr (text)"
    )
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), help="the lowest level to log"
    )


def set_log(options: Options, level: int) -> None:
    """Set up logging by the options; `level` is the default of --log-level."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter() if options.log == "json" else logging.Formatter("pgq: %(message)s")
    )
    if options.log_level is not None:
        level = logging.getLevelNamesMapping()[options.log_level.upper()]
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("pgq").setLevel(level)


# The types of arguments


def json_value(text: str) -> Any:
    """Return the value of a JSON text."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {text!r} ({error})") from None


def json_object(text: str) -> dict[str, Any]:
    """Return the value of a JSON text that must be an object."""
    value = json_value(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"not a JSON object: {text!r}")
    return value


def filter_document(text: str) -> dict[str, Any]:
    """Return a filter; the error shows what one looks like."""
    try:
        return json_object(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f'{error}; write a filter such as \'{{"type": "paid"}}\''
        ) from None


def duration(text: str) -> timedelta:
    """Return the duration of a text such as 90, 90s, 1.5h or 1h30m; the default unit is seconds."""
    try:
        return durations.duration(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"not a duration: {text!r}; write 500ms, 90s, 15m, 2h, 1d"
        ) from None


def positive(text: str) -> int:
    """Return a number of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a positive number: {text!r}")
    return int(text)


def natural(text: str) -> int:
    """Return a number of at least zero."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"not a number of at least 0: {text!r}")
    return int(text)


def moment(text: str) -> datetime:
    """Return the time of a text in ISO 8601; without a time zone it is a local time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"not a time: {text!r}; write 2030-01-31T06:00+01:00"
        ) from None
