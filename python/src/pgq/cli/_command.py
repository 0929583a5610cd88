"""What all commands share: their parsers, their arguments, their connection."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg

from pgq.cli._output import Output
from pgq.client import Client
from pgq.logging import JsonFormatter

__all__ = [
    "FAILED",
    "NO",
    "UNREACHABLE",
    "USAGE",
    "Commands",
    "Failure",
    "Options",
    "add_log",
    "client",
    "connect",
    "duration",
    "filter_document",
    "json_object",
    "json_value",
    "positive",
    "set_log",
]

FAILED = 1
USAGE = 2
NO = 3
UNREACHABLE = 4

Options = argparse.Namespace
Run = Callable[[Options, Output], int | None]

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)?\s*")


class Failure(Exception):
    """Something that ends a command; said to the user, with the cure."""

    def __init__(self, message: str, hint: str | None = None, *, code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


class Commands:
    """The commands, or those of a group."""

    def __init__(
        self, description: str, epilog: str = "", parser: argparse.ArgumentParser | None = None
    ) -> None:
        if parser is None:
            parser = argparse.ArgumentParser(
                "pgq",
                description=description,
                epilog=epilog,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            _common(parser, dsn=os.environ.get("PGQ_DSN", ""), json=False)
        self.parser = parser
        self._all = parser.add_subparsers(metavar="COMMAND", required=True)

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
        # Given before the command they have a value already.
        _common(parser, dsn=argparse.SUPPRESS, json=argparse.SUPPRESS)
        parser.set_defaults(run=run)
        return parser


def _common(parser: argparse.ArgumentParser, *, dsn: Any, json: Any) -> None:
    parser.add_argument("--dsn", default=dsn, help="connection string or URL of the database")
    parser.add_argument(
        "--json", action="store_true", default=json, help="JSON, a line for each row"
    )


def connect(options: Options) -> psycopg.Connection[Any]:
    """Connect to the database that is meant; each statement is a transaction."""
    return psycopg.connect(
        options.dsn,
        autocommit=True,
        fallback_application_name="pgq",
        prepare_threshold=None,  # there may be a pooler that shares sessions
    )


class client:
    """A client on a connection of its own, for a ``with`` block."""

    def __init__(self, options: Options) -> None:
        self._conn = connect(options)

    def __enter__(self) -> Client:
        return Client(self._conn)

    def __exit__(self, *_: object) -> None:
        self._conn.close()


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add what a command that runs for long says about itself."""
    parser.add_argument("--log", choices=("text", "json"), default="text", help="on stderr (text)")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), help="from which level on"
    )


def set_log(options: Options, level: int) -> None:
    """Log as the options say, from that level on unless they say otherwise."""
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
    """Return what a JSON text says."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {text!r} ({error})") from None


def json_object(text: str) -> dict[str, Any]:
    """Return what the text of a JSON object says."""
    value = json_value(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"not a JSON object: {text!r}")
    return value


filter_document = json_object


def duration(text: str) -> timedelta:
    """Return the time that a text like 90, 90s, 1.5h or 1h30m says; without a unit in seconds."""
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text):
        raise argparse.ArgumentTypeError(f"not a duration: {text!r}; write 500ms, 90s, 15m, 2h, 1d")
    return timedelta(seconds=sum(float(number) * _UNITS[unit or "s"] for number, unit in parts))


def positive(text: str) -> int:
    """Return a number of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a positive number: {text!r}")
    return int(text)
