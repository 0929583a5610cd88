"""The findings as Markdown, with the targets and whether they were met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """A figure that was promised, and the one that was measured."""

    what: str
    measured: str
    wanted: str
    met: bool

    @property
    def verdict(self) -> str:
        return "met" if self.met else "**not met**"


@dataclass
class Section:
    """The findings of one module."""

    name: str
    title: str
    lines: list[str] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def say(self, text: str) -> None:
        self.lines += ["", text]

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table: the first column is text, the others are numbers."""
        rule = ["---", *("---:" for _ in columns[1:])]
        self.lines += ["", *("| " + " | ".join(row) + " |" for row in (columns, rule, *rows))]

    def at_most(self, what: str, measured: float, limit: float, unit: str = "") -> str:
        """Note a target that is an upper limit; return the verdict for a table."""
        return self._target(what, measured, limit, unit, "at most", measured <= limit)

    def at_least(self, what: str, measured: float, limit: float, unit: str = "") -> str:
        """Note a target that is a lower limit; return the verdict for a table."""
        return self._target(what, measured, limit, unit, "at least", measured >= limit)

    def guard(self, what: str, holds: bool) -> None:
        """Note a margin so wide that whoever breaks it has broken the code, on any machine."""
        if not holds:
            self.broken.append(f"{self.name}: {what}")

    def markdown(self) -> str:
        head = f"## {self.name}: {self.title}"
        return "\n".join([head, *self.lines, "", f"({self.seconds:.0f} s)"])

    def _target(
        self, what: str, measured: float, limit: float, unit: str, word: str, met: bool
    ) -> str:
        target = Target(what, number(measured, unit), f"{word} {number(limit, unit)}", met)
        self.targets.append(target)
        return target.verdict


def number(value: float, unit: str = "") -> str:
    """Write a number with three significant digits or so, and its unit."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:,.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {unit}".rstrip()


def whole(preface: str, sections: Sequence[Section]) -> str:
    """Return the whole report."""
    lines = ["# pgq: measurements", "", preface, "", "## Targets", ""]
    targets = [(section.name, target) for section in sections for target in section.targets]
    lines += ["| | target | wanted | measured | |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {target.what} | {target.wanted} | {target.measured} | {target.verdict} |"
        for name, target in targets
    ]
    met = sum(target.met for _, target in targets)
    lines += ["", f"{met} of {len(targets)} met."]
    for section in sections:
        lines += ["", section.markdown()]
    return "\n".join(lines) + "\n"
