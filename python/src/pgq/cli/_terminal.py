"""The terminal, by rich (``pgq-client[cli]``): colour, widths, live views, progress.

Without rich, and if stdout is not a terminal, the output is plain text: see :func:`show`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from pgq.cli._table import Line, Table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

__all__ = ["console", "is_terminal", "live", "show", "stacked"]


def console(stream: TextIO | None = None, *, anyway: bool = False) -> Console | None:
    """Return a console of rich for stdout or another stream; None if that is not a terminal.

    :param anyway: return a console even if the stream is not a terminal.
    """
    stream = stream if stream is not None else sys.stdout
    terminal = stream is not None and is_terminal(stream)
    if not (terminal or anyway):
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Console(
        file=stream,
        force_terminal=terminal,
        color_system=None if plain else "auto",
        highlight=False,
        markup=False,
        emoji=False,
    )


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal."""
    return stream.isatty()


def show(what: Table | Line | str) -> None:
    """Print for people: on a terminal in colour and fitted to its width, else as plain text."""
    terminal = console()
    if terminal is None:
        print(what)
    else:
        terminal.print(what, crop=False)


@contextmanager
def live(terminal: Console) -> Iterator[Live]:
    """Yield a live view that redraws itself; the former screen returns when the block ends."""
    from rich.live import Live

    with Live(
        console=terminal,
        screen=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as view:
        yield view


def stacked(*parts: RenderableType) -> RenderableType:
    """Return several parts as one, below each other."""
    from rich.console import Group

    return Group(*parts)
