"""A bar on stderr."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]

_WIDTH = 30
_EVERY_SECONDS = 0.1


class Progress:
    """Shows how far something is, to people only unless it is asked for.

    :param total: how far it goes; None if nobody knows.
    """

    def __init__(self, total: int | None, unit: str, *, shown: bool | None = None) -> None:
        self._total = total
        self._unit = unit
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._began = time.monotonic()
        self._next = 0.0
        self._last = ""

    def at(self, position: int, count: int) -> None:
        """Say how far it is, and how many that makes."""
        seconds = time.monotonic() - self._began
        line = f"{count:,} {self._unit}, {count / max(seconds, 0.001):,.0f}/s"
        if self._total:
            part = min(position / self._total, 1.0)
            bar = "#" * round(part * _WIDTH)
            line = f"[{bar:.<{_WIDTH}}] {part:4.0%}  {line}"
        self._last = line
        if self._shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            self._draw()

    def close(self) -> None:
        """Leave the last line where it is."""
        if self._shown and self._last:
            self._draw()
            sys.stderr.write("\n")

    def _draw(self) -> None:
        sys.stderr.write(f"\r{self._last}\x1b[K")
        sys.stderr.flush()
