"""The command line, as a test uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pgq import cli


@dataclass(frozen=True)
class CommandResult:
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., CommandResult]


def here(capsys: pytest.CaptureFixture[str], *arguments: object) -> CommandResult:
    """Run a command in this process."""
    capsys.readouterr()
    try:
        code = cli.main([str(argument) for argument in arguments])
    except SystemExit as end:  # argparse
        code = int(end.code or 0)
    printed = capsys.readouterr()
    return CommandResult(code, printed.out, printed.err)


def in_process(dsn: str, *arguments: object, stdin: str = "") -> CommandResult:
    """Run a command in its own process."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pgq", *map(str, arguments)],
        env=os.environ | {"PGQ_DSN": dsn},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)
