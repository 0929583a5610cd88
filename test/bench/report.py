"""The report: measurements as Markdown, with targets and whether they are met."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.plots import Plot, draw

#: Where the plots are, seen from the report.
PLOTS = "benchmark"
INTRODUCTION = (
    "`make bench` writes this report. No figure in it is entered by hand. Costs are CPU time "
    "wherever possible, because elapsed time depends on the machine's load. Systems that are "
    "compared run in turns, in the same run and on the same server. Each figure is the median of "
    "several rounds. The [table of targets](#targets) also lists the targets that are not met."
)

#: The figures at the top: section, pattern of the target, and what the figure says.
FIGURES = (
    (
        "cost",
        r"1000/100, pgq: claim\+ack CPU, ratio",
        "CPU of claim and acknowledgement, pgq : pgmq",
    ),
    (
        "backlog",
        r"in sets: claim of 100, worst : .*",
        "CPU of a claim, largest : smallest backlog",
    ),
    (
        "snapshot",
        r"published by 1, .*: rate kept",
        "claim rate that remains beside a long-running transaction",
    ),
    (
        "filters",
        r"with lanes: CPU of a claim",
        "CPU of a filtered claim behind all other messages",
    ),
    ("wakeup", r"wake-up: p50", "wake-up of an idle consumer, median"),
)
#: The sections whose first plots are the picture at the top.
PICTURED = ("snapshot", "backlog")


@dataclass(frozen=True)
class Target:
    """A promised limit and the measured figure."""

    what: str
    measured: str
    wanted: str
    met: bool

    @property
    def verdict(self) -> str:
        return "met" if self.met else "**not met**"


@dataclass(frozen=True)
class Guard:
    """A margin that is wide on any machine: if it does not hold, the code is broken."""

    what: str
    holds: bool


@dataclass
class Section:
    """The results of one module, and the run that they come from."""

    name: str
    title: str
    lines: list[str] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    #: The machine and the versions of the software.
    environment: dict[str, str] = field(default_factory=dict)
    measured_at: str = ""
    commit: str = ""
    command: str = ""
    seconds: float = 0.0

    def say(self, text: str) -> None:
        self.lines += ["", text]

    def points(self, *texts: str) -> None:
        """Add a list."""
        self.lines += ["", *(f"- {text}" for text in texts)]

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table; columns of numbers are aligned to the right."""
        texts = [any(row[i].lstrip("*")[:1].isalpha() for row in rows) for i in range(len(columns))]
        rule = ["---" if i == 0 or texts[i] else "---:" for i in range(len(columns))]
        self.lines += ["", *("| " + " | ".join(row) + " |" for row in (columns, rule, *rows))]

    def plot(
        self,
        title: str,
        x: str,
        y: str,
        series: Mapping[str, Sequence[tuple[float, float]]],
        *,
        log: str = "",
    ) -> None:
        """Add a plot of lines; `log` names the axes that are logarithmic: "x", "y" or "xy"."""
        self.plots.append(Plot(title, x, y, log, {name: list(s) for name, s in series.items()}))
        self.lines += ["", f"![{title}]({PLOTS}/{self.name}-{len(self.plots)}.svg)"]

    def at_most(self, what: str, measured: float, limit: float, unit: str = "") -> str:
        """Record a target that is an upper limit; return the verdict for a table."""
        return self._target(what, measured, limit, unit, "at most", measured <= limit)

    def at_least(self, what: str, measured: float, limit: float, unit: str = "") -> str:
        """Record a target that is a lower limit; return the verdict for a table."""
        return self._target(what, measured, limit, unit, "at least", measured >= limit)

    def guard(self, what: str, holds: bool) -> None:
        """Record a margin; `what` is the error text if it does not hold, and fails the run."""
        self.guards.append(Guard(what, holds))

    @property
    def broken(self) -> list[str]:
        return [f"{self.name}: {guard.what}" for guard in self.guards if not guard.holds]

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> Section:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        found["targets"] = [Target(**target) for target in found["targets"]]
        found["guards"] = [Guard(**guard) for guard in found["guards"]]
        found["plots"] = [Plot(**plot) for plot in found["plots"]]
        return cls(**found)

    def markdown(self) -> str:
        source = (
            f"Measured {self.measured_at} at commit {self.commit} in {self.seconds:.0f} s by "
            f"`{self.command}`."
        )
        return "\n".join([f"## {self.name}", "", self.title, *self.lines, "", source])

    def _target(
        self, what: str, measured: float, limit: float, unit: str, word: str, met: bool
    ) -> str:
        target = Target(what, number(measured, unit), f"{word} {number(limit, unit)}", met)
        self.targets.append(target)
        return target.verdict


def number(value: float, unit: str = "") -> str:
    """Format a number with about three significant digits, and its unit."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:,.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {unit}".rstrip()


def write(file: Path, sections: Sequence[Section], preface: str = "") -> None:
    """Write the report, and its plots beside it."""
    plots = file.parent / PLOTS
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.svg"):
        old.unlink()
    for section in sections:
        for position, plot in enumerate(section.plots, 1):
            draw([plot], plots / f"{section.name}-{position}.svg")
    if pictured := _pictured(sections):
        draw(pictured, plots / "summary.svg")
    file.write_text(whole(sections, preface), encoding="utf-8")


def whole(sections: Sequence[Section], preface: str) -> str:
    """Return the text of the whole report."""
    lines = ["# pgq: measurements", ""]
    lines += [preface, ""] if preface else []
    lines += [*_summary(sections), INTRODUCTION, "", "## Sections", ""]
    lines += [f"- [{section.name}](#{section.name}): {section.title}" for section in sections]
    for section in sections:
        lines += ["", section.markdown()]
    lines += ["", "## Targets", "", *_targets(sections)]
    lines += ["", "## Environment", "", *_environment(sections)]
    return "\n".join(lines) + "\n"


def figures(sections: Sequence[Section]) -> list[tuple[str, str, str]]:
    """Return the measured figures for the top of the report: section, text, value."""
    return [
        (name, text, target.measured)
        for name, pattern, text in FIGURES
        for section in sections
        if section.name == name
        for target in section.targets
        if re.fullmatch(pattern, target.what)
    ]


def _summary(sections: Sequence[Section]) -> list[str]:
    found = figures(sections)
    targets = [target for section in sections for target in section.targets]
    met = sum(target.met for target in targets)
    rows = [f"| {text} | {value} | [{name}](#{name}) |" for name, text, value in found]
    lines = ["| figure | measured | section |", "| --- | ---: | --- |", *rows, ""] if rows else []
    lines += [f"{met} of {len(targets)} [targets](#targets) are met.", ""]
    if pictured := _pictured(sections):
        lines += [f"![{'; '.join(plot.title for plot in pictured)}]({PLOTS}/summary.svg)", ""]
    return lines


def _pictured(sections: Sequence[Section]) -> list[Plot]:
    measured = {section.name: section for section in sections if section.plots}
    return [measured[name].plots[0] for name in PICTURED if name in measured]


def _environment(sections: Sequence[Section]) -> list[str]:
    common = dict(sections[0].environment)
    lines = ["| | |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in common.items())]
    for section in sections:
        other = {k: v for k, v in section.environment.items() if common.get(k) != v}
        if other:
            words = "; ".join(f"{key}: {value}" for key, value in other.items())
            lines += ["", f"[{section.name}](#{section.name}) was measured with {words}."]
    commits = {section.commit for section in sections}
    if len(commits) > 1:
        lines += ["", "The sections are from several runs; each section names its run."]
    return lines


def _targets(sections: Sequence[Section]) -> list[str]:
    targets = [(section.name, target) for section in sections for target in section.targets]
    return [
        "| | target | wanted | measured | |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| [{name}](#{name}) | {target.what} | {target.wanted} | {target.measured} "
            f"| {target.verdict} |"
            for name, target in targets
        ),
    ]
