"""A progress bar on stderr, drawn by rich."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pgq.cli import _terminal
from pgq.cli._command import Failure

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

__all__ = ["Progress"]


class Progress:
    """A progress bar.

    :param total: the end of the bar; None if it is unknown.
    :param shown: None shows the bar on a terminal only; True and False override that.
    """

    def __init__(self, total: int | None, unit: str, *, shown: bool | None = None) -> None:
        self._bar: Bar | None = None
        console = None if shown is False else _terminal.console(sys.stderr, anyway=bool(shown))
        if console is None:
            if shown:
                raise Failure("rich is missing", "pip install 'pgq-client[cli]'")
            return
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        count = TextColumn("{task.fields[count]:,} {task.description}")
        columns = BarColumn(), TaskProgressColumn(), count, TimeElapsedColumn()
        self._bar = Bar(*columns, console=console)
        self._task = self._bar.add_task(unit, total=total, count=0)
        self._bar.start()

    def at(self, position: int, count: int) -> None:
        """Set the position of the bar, and the count beside it."""
        if self._bar is not None:
            self._bar.update(self._task, completed=position, count=count)

    def close(self) -> None:
        """Stop the bar; its last state stays on the screen."""
        if self._bar is not None:
            self._bar.stop()
