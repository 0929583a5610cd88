"""Plots for the report: small SVG files. The same figures give the same file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

# Colours that colour-blind readers can distinguish; markers distinguish the lines in print.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#8a6d00")
STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# Lines with more points than this are drawn without markers.
CURVE = 30
SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pgq",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass
class Plot:
    """Lines over one axis."""

    title: str
    x: str
    y: str
    log: str
    series: dict[str, list[tuple[float, float]]]


def draw(plots: Sequence[Plot], file: Path) -> None:
    """Draw the plots side by side into a file."""
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(7 if len(plots) == 1 else 5 * len(plots), 3.6))
        figure.set_layout_engine("constrained")
        for axes, plot in zip(figure.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
            _draw_lines(axes, plot)
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")


def _draw_lines(axes: Axes, plot: Plot) -> None:
    # All lines of a system have the same colour. The name of a line begins with its system.
    systems: dict[str, int] = {}
    for position, (name, points) in enumerate(plot.series.items()):
        system = _system(name)
        lines = sum(_system(other) == system for other in list(plot.series)[:position])
        colour = systems.setdefault(system, len(systems))
        axes.plot(
            [point[0] for point in points],
            [point[1] for point in points],
            color=COLOURS[colour % len(COLOURS)],
            linestyle=STYLES[lines % len(STYLES)],
            marker=MARKERS[position % len(MARKERS)] if len(points) <= CURVE else "",
            markersize=5,
            linewidth=1.5,
            label=name,
        )
    if "x" in plot.log:
        axes.set_xscale("log")
    if "y" in plot.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    axes.set_title(plot.title, loc="left", fontsize=10)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.grid(alpha=0.25)
    if len(plot.series) > 1:
        axes.legend(frameon=False, fontsize=8)


def _system(name: str) -> str:
    return name.partition(",")[0]


def _tick(value: float, position: int | None) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:g}"
