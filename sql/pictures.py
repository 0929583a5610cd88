"""Draw extension/doc/tables.svg and extension/doc/claim.svg from the sources.

    python sql/pictures.py             draw them
    python sql/pictures.py --check     compare, write nothing

The columns come from sql/10_schema; `TABLES` and `REFERENCES` say which tables are shown, where,
and what joins them. The second picture follows one row of ids through a claim.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import build

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "extension" / "doc"

STYLE = """\
  text { font: 12px sans-serif; fill: #1f2933 }
  .title { font-weight: bold } .small { font-size: 11px; fill: #52606d }
  .key { font-weight: bold } .ids { fill: #0072b2; font-weight: bold }
  rect { fill: #ffffff; stroke: #9aa5b1 } .head { fill: #e4e7eb }
  .step { fill: #f5f7fa } .new { fill: #d9ecf7; stroke: #0072b2 }
  .gone { fill: #ffffff; stroke: #d55e00; stroke-dasharray: 4 3 }
  path { fill: none; stroke: #52606d } .set { stroke: #0072b2; stroke-dasharray: 5 3 }
"""
ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    ' orient="auto"><path d="M0 0 L8 4 L0 8"/></marker>'
)
LINE = 16
WIDTH = 196

#: Tables by position (column, row of pixels), and the columns that are worth showing.
TABLES = {
    "queue": (0, 20, "queue_id name lane_keys lease max_attempts retention paused"),
    "binding": (0, 190, "binding_id queue_id pattern filter since"),
    "lane": (0, 330, "lane_id queue_id label"),
    "ready": (1, 20, "queue_id lane_id rank attempt size expires_at ids"),
    "scheduled": (1, 190, "queue_id due_at attempt size ids"),
    "lease": (1, 330, "lease_id queue_id until attempt holder key ids"),
    "message": (2, 120, "id era topic priority headers payload group_key published_at"),
    "letter": (2, 330, "dead_letter_id queue_id message_id reason error attempts payload"),
    "journal": (3, 20, "at queue_id event attempt lease_id error ids"),
    "era": (3, 200, "slot number started_at closed_xid archived_at"),
}
#: From a column of one table to a table; a set of ids is drawn dashed.
REFERENCES = (
    ("binding", "queue_id", "queue"),
    ("lane", "queue_id", "queue"),
    ("ready", "queue_id", "queue"),
    ("scheduled", "queue_id", "queue"),
    ("lease", "queue_id", "queue"),
    ("ready", "ids", "message"),
    ("scheduled", "ids", "message"),
    ("lease", "ids", "message"),
    ("journal", "ids", "message"),
    ("letter", "message_id", "message"),
    ("message", "era", "era"),
)


@dataclass
class Drawing:
    """A picture to which elements are added."""

    title: str
    width: int
    height: int
    elements: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        self.elements.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str = "") -> None:
        self.elements.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" class="{kind}"/>'
        )

    def line(self, path: str, kind: str = "") -> None:
        self.elements.append(f'<path d="{path}" class="{kind}" marker-end="url(#arrow)"/>')

    def svg(self) -> str:
        size = f'width="{self.width}" height="{self.height}"'
        view = f'viewBox="0 0 {self.width} {self.height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>\n{STYLE}</style>",
                ARROW,
                f'<rect width="{self.width}" height="{self.height}" style="stroke: none"/>',
                *self.elements,
                "</svg>\n",
            ]
        )


def columns() -> dict[str, dict[str, str]]:
    """Return the columns of each table of sql/10_schema with their types."""
    found: dict[str, dict[str, str]] = {}
    for source in build.read_sources(ROOT, build.read_version(ROOT)):
        for name, body in re.findall(
            r"^create table pgq\.(\w+) \(\n(.*?)^\)", source.text, re.MULTILINE | re.DOTALL
        ):
            found[name] = dict(
                re.findall(r"^    (?!constraint)(\w+) +([\w\[\]]+)", body, re.MULTILINE)
            )
    return found


def tables() -> str:
    """Return the picture of the tables."""
    known = columns()
    drawing = Drawing("The tables that a message passes", 1010, 500)
    place: dict[str, tuple[int, int]] = {}
    row: dict[tuple[str, str], int] = {}
    for name, (column, y, shown) in TABLES.items():
        x = 15 + column * 255
        place[name] = x, y
        names = shown.split()
        drawing.box(x, y, WIDTH, (len(names) + 1) * LINE + 8)
        drawing.box(x, y, WIDTH, LINE + 4, "head")
        drawing.text(x + 8, y + 14, f"pgq.{name}", "title")
        for position, one in enumerate(names, 1):
            row[name, one] = y + position * LINE + 10
            kind = "ids" if one == "ids" else "key" if position == 1 else ""
            drawing.text(x + 8, y + position * LINE + 15, one, kind)
            drawing.text(x + 112, y + position * LINE + 15, known[name][one], "small")
    for name, one, target in REFERENCES:
        drawing.line(
            joined(place[name], row[name, one], place[target]), "set" if one == "ids" else ""
        )
    drawing.text(
        15, 480, "Dashed: ids is a set (int8multirange). One row stands for many messages."
    )
    return drawing.svg()


def joined(start: tuple[int, int], y: int, end: tuple[int, int]) -> str:
    """Return the path from a column to the head of a table, left or right of it or above."""
    (x1, _), (x2, y2) = start, end
    if x1 == x2:
        return f"M{x1} {y} C{x1 - 14} {y} {x1 - 14} {y2 + 10} {x1} {y2 + 10}"
    if x1 < x2:
        return f"M{x1 + WIDTH} {y} C{x1 + WIDTH + 35} {y} {x2 - 35} {y2 + 10} {x2} {y2 + 10}"
    right = x2 + WIDTH
    return f"M{x1} {y} C{x1 - 35} {y} {right + 35} {y2 + 10} {right} {y2 + 10}"


#: The steps of a claim of 3 messages: heading, tables, and rows with their style.
STEPS = (
    (
        "1  Two ready rows of the queue",
        "ready",
        [
            ("rank 1  attempt 0  size 5", "{[1,6)}", ""),
            ("rank 6  attempt 0  size 2", "{[6,8)}", ""),
        ],
    ),
    (
        "2  claim(n => 3): delete the first row that no one has locked",
        "ready",
        [
            ("rank 1  attempt 0  size 5", "{[1,6)}", "gone"),
            ("rank 6  attempt 0  size 2", "{[6,8)}", ""),
        ],
    ),
    (
        "3  Insert the lease, and what is left of the row",
        "lease, ready",
        [
            ("lease 71  attempt 1  size 3", "{[1,4)}", "new"),
            ("rank 4  attempt 0  size 2", "{[4,6)}", "new"),
            ("rank 6  attempt 0  size 2", "{[6,8)}", ""),
        ],
    ),
    (
        "4  Read messages 1 to 3 from the log, and return them with lease 71",
        "message",
        [("ids 1, 2, 3: headers, payload", "not changed", "")],
    ),
    (
        "5  ack(71): delete the lease, and note it in the audit log",
        "lease, journal",
        [
            ("lease 71  attempt 1  size 3", "{[1,4)}", "gone"),
            ("ack  lease 71  size 3", "{[1,4)}", "new"),
        ],
    ),
)


def claim() -> str:
    """Return the picture of a claim."""
    drawing = Drawing("How a claim works", 760, 452)
    y = 12
    for heading, where, rows in STEPS:
        height = 26 + len(rows) * 24
        drawing.box(12, y, 736, height, "step")
        drawing.text(22, y + 17, heading, "title")
        drawing.text(640, y + 17, where, "small")
        for position, (text, ids, kind) in enumerate(rows):
            top = y + 24 + position * 24
            drawing.box(40, top, 560, 20, kind)
            drawing.text(50, top + 14, text)
            drawing.text(470, top + 14, ids, "ids")
        y += height + 8
        drawing.height = y + 34
    drawing.text(
        22,
        y + 8,
        "Blue: inserted. Dashed: deleted. Steps 2 to 4 are one call; 5 can join your transaction.",
    )
    drawing.text(
        22, y + 24, "No row is updated, whatever n is: the work is per row, not per message."
    )
    return drawing.svg()


def pictures() -> dict[str, str]:
    """Return the pictures by the names of their files."""
    return {"tables.svg": tables(), "claim.svg": claim()}


def stale() -> list[str]:
    """Return the names of the pictures that are not what the sources say."""
    return [
        name
        for name, text in pictures().items()
        if not (TARGET / name).exists() or (TARGET / name).read_text(encoding="utf-8") != text
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if parser.parse_args().check:
        old = stale()
        for name in old:
            print(f"pictures: extension/doc/{name} is stale; run make docs", file=sys.stderr)
        return 1 if old else 0
    for name, text in pictures().items():
        (TARGET / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
