"""python/DASHBOARD.md: its commands are understood, its pictures are there and small."""

from __future__ import annotations

import re
import shlex
from typing import Any

from harness.paths import ROOT
from pgq import cli

PAGE = ROOT / "python" / "DASHBOARD.md"


def test_every_command_is_one_that_pgq_understands() -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)).split("\n")
    commands = [line.split("pgq ", 1)[1] for line in lines if "pgq dashboard" in line]
    assert len(commands) == 4
    for command in commands:
        assert cli.parser().parse_args(shlex.split(command)).run.__name__ == "dashboard"
    options = set(re.findall(r"--[a-z-]+", text))
    options.discard("--timeout-graceful-shutdown")  # uvicorn's
    known = cli.parser().parse_args(["dashboard"])
    assert {option[2:].replace("-", "_") for option in options} <= set(vars(known))


def test_every_picture_is_there_and_small() -> None:
    names = re.findall(r"dashboard-\w+\.png", PAGE.read_text(encoding="utf-8"))
    assert len(names) == 5
    for name in names:
        content = (PAGE.parent / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < 150_000


def test_the_example_of_an_application_runs() -> None:
    (block,) = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    found: dict[str, Any] = {}
    exec(block, found)
    assert found["app"].routes[0].path == "/ops/queues"
