"""Rows as a table for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

__all__ = ["table"]


def table(names: Sequence[str], rows: Sequence[Sequence[Any]], *, indent: int = 0) -> str:
    """Return rows as an aligned table, numbers to the right."""
    cells = [[_text(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(names), *cells]) for i in range(len(names))]
    right = [any(_is_number(row[i]) for row in rows) for i in range(len(names))]

    def line(values: Sequence[str]) -> str:
        aligned = (
            value.rjust(width) if to_right else value.ljust(width)
            for value, width, to_right in zip(values, widths, right, strict=True)
        )
        return " " * indent + "  ".join(aligned).rstrip()

    rule = " " * indent + "  ".join("-" * width for width in widths)
    return "\n".join([line(names), rule, *(line(row) for row in cells)])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    if isinstance(value, datetime):
        return f"{value:%H:%M:%S}"
    if isinstance(value, timedelta):
        return str(timedelta(seconds=round(value.total_seconds(), 1))).removesuffix("00000")
    # One line, and nothing that a terminal would obey.
    return "".join(char if char.isprintable() else " " for char in str(value))
