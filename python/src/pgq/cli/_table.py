"""Tables and lines for people: as plain text, or as rich draws them on a terminal."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult

__all__ = ["Line", "Table", "last_line", "printable", "span"]

# The colours of words by their meaning.
_COLOURS = {
    "critical": "bold red",
    "problem": "red",
    "warning": "yellow",
    "unknown": "yellow",
    "paused": "yellow",
    "info": "cyan",
    "ok": "green",
}
_TITLE = "bold"


class Table:
    """Rows under titles; numbers, and the columns in `right`, are aligned to the right.

    :param indent: the number of spaces before each line.
    :param shortest: longer words may be broken to make a column narrower.
    """

    def __init__(
        self,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        indent: int = 0,
        right: Collection[str] = (),
        shortest: int = 14,
    ) -> None:
        self._names = list(names)
        self._cells = [[_text(value) for value in row] for row in rows]
        self._indent = indent
        self._shortest = shortest
        self._right = [
            name in right or any(_is_number(row[i]) for row in rows) for i, name in enumerate(names)
        ]

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(self._names, *self._cells, strict=True)]

        def line(values: Sequence[str]) -> str:
            aligned = (
                value.rjust(width) if right else value.ljust(width)
                for value, width, right in zip(values, widths, self._right, strict=True)
            )
            return " " * self._indent + "  ".join(aligned).rstrip()

        return "\n".join(map(line, [self._names, ["-" * width for width in widths], *self._cells]))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Fit the table into the terminal: fold texts, or else print one line per cell."""
        from rich.padding import Padding
        from rich.table import Table as Drawn
        from rich.text import Text

        titles = [name.replace("_", " ") for name in self._names]
        room = options.max_width - self._indent
        for gap in (2, 1):
            widths = self._widths(titles, room - gap * (len(titles) - 1))
            if widths is not None:
                break
        else:
            yield from self._records()
            return
        drawn = Drawn(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style=_TITLE)
        for title, right, width in zip(titles, self._right, widths, strict=True):
            align: JustifyMethod = "right" if right else "left"
            drawn.add_column(title, justify=align, width=width, overflow="fold")
        drawn.add_row(*("-" * width for width in widths), style="dim")
        for row in self._cells:
            drawn.add_row(*(Text(cell, _COLOURS.get(cell, "")) for cell in row))
        yield Padding(drawn, (0, 0, 0, self._indent), expand=False)

    def _widths(self, titles: Sequence[str], room: int) -> list[int] | None:
        """Return the widths of the columns, the widest ones reduced; None if they do not fit."""
        columns = list(zip(titles, *self._cells, strict=True))
        least = []
        for (title, *cells), right in zip(columns, self._right, strict=True):
            longest = max(map(len if right else _longest_word, cells), default=0)
            longest = longest if right else min(longest, self._shortest)
            least.append(max(longest, _longest_word(title)))
        if sum(least) > room:
            return None
        widths = [max(map(len, column)) for column in columns]
        while sum(widths) > room:
            spare = [width if width > low else 0 for width, low in zip(widths, least, strict=True)]
            widths[spare.index(max(spare))] -= 1
        return widths

    def _records(self) -> Iterator[Line]:
        width = max(map(len, self._names)) + 1
        for number, row in enumerate(self._cells):
            if number:
                yield Line("", "")
            for name, cell in zip(self._names, row, strict=True):
                if cell:
                    yield Line(" " * self._indent + name.ljust(width), cell)


class Line:
    """A word in the colour of its meaning, and a text.

    Only the terminal wraps the line, so that a command in it can be copied.
    """

    def __init__(self, word: str, text: str, *, meaning: str | None = None) -> None:
        self._word = word
        self._text = printable(text)
        self._colour = _TITLE if meaning is None else _COLOURS.get(meaning, "")

    def __str__(self) -> str:
        return f"{self._word} {self._text}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        parts = (self._word, self._colour), f" {self._text}"
        yield Text.assemble(*parts, no_wrap=True, overflow="ignore")


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


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
        return span(value)
    return printable(last_line(str(value)))


def last_line(text: str) -> str:
    """Return a text in which a Python traceback is replaced by its last line: the exception."""
    before, found, trace = text.partition("Traceback (most recent call last):\n")
    return before + trace.rstrip().rsplit("\n", 1)[-1] if found else text


def span(value: timedelta) -> str:
    """Return a duration as options are written: 1d, 1h30m, 90s becomes 1m30s."""
    seconds = value.total_seconds()
    if abs(seconds) < 60:
        return f"{seconds:.3g}s"
    text = "-" if seconds < 0 else ""
    left = round(abs(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text


def printable(text: str) -> str:
    """Return a text as one line, without control characters."""
    return "".join(char if char.isprintable() else " " for char in text)
