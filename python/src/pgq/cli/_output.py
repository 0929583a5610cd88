"""Output: data goes to stdout, as a table or as JSON lines; everything else to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pgq.cli._table import Line, Table
from pgq.cli._terminal import show
from pgq.rows import Row

__all__ = ["Output", "as_json", "complain", "readable", "say", "tell"]


class Output:
    """Prints the rows of a command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def rows(self, rows: Sequence[Mapping[str, Any] | Row], columns: Sequence[str] = ()) -> None:
        """Print rows: as JSON with all columns, or as a table with the given columns."""
        if self.as_json:
            for row in rows:
                print(as_json(dict(row)))
        elif rows:
            names = columns or list(rows[0].keys())
            show(Table(names, [[readable(row[name]) for name in names] for row in rows]))

    def row(self, row: Mapping[str, Any]) -> None:
        """Print a single row: as JSON, or one line per column that has a value."""
        if self.as_json:
            self.rows([row])
            return
        width = max(map(len, row))
        for name, value in row.items():
            if value is not None:
                shown = as_json(value) if isinstance(value, dict | list) else readable(value)
                show(Line(name.ljust(width + 1), str(shown)))

    def value(self, name: str, value: Any) -> None:
        """Print one value, without a table."""
        print(as_json({name: value}) if self.as_json else readable(value))


def readable(value: Any) -> Any:
    """Return a time as text with date and zone; any other value unchanged."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return value


def as_json(value: Any) -> str:
    """Return a value as JSON: times in ISO 8601, durations in seconds."""
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return float(value)
    return str(value)


def say(text: str) -> None:
    """Print a text that is not data to stderr."""
    print(text, file=sys.stderr)


def tell(out: Output, name: str, done: bool, else_: str) -> None:
    """Print whether an action changed something: `name`, or the text `else_` if it did not."""
    if out.as_json:
        out.value(name, done)
    else:
        say(name if done else else_)


def complain(message: str, *more: str | None) -> None:
    """Print an error to stderr, with its detail and hint if there are any."""
    say("\n     ".join([f"pgq: {message}", *filter(None, more)]))
