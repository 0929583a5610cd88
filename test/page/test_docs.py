"""python/DASHBOARD.md: its commands are understood, its pictures are there and small."""

from __future__ import annotations

import re
import shlex

from harness.paths import ROOT
from pgq import cli

PAGE = ROOT / "python" / "DASHBOARD.md"


def test_every_command_is_one_that_pgq_understands() -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)).split("\n")
    commands = [line.split("pgq ", 1)[1] for line in lines if "pgq " in line]
    assert len(commands) == 4
    for command in commands:
        assert cli.parser().parse_args(shlex.split(command)).run.__name__ == "dashboard"
    options = set(re.findall(r"--[a-z-]+", text))
    known = cli.parser().parse_args(["dashboard"])
    assert {option[2:].replace("-", "_") for option in options} <= set(vars(known))


def test_every_picture_is_there_and_small() -> None:
    names = re.findall(r"dashboard-\w+\.png", PAGE.read_text(encoding="utf-8"))
    assert len(names) == 4
    for name in names:
        content = (PAGE.parent / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < 150_000
