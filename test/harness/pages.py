"""Pages of documentation, run block by block as their reader would.

``sql`` goes to psql, ``python`` to Python, ``sh`` to a shell that finds the command ``pgq``. What a
block prints is shown in the ``text`` block behind it; psql's output may be left out, that of the
others must be shown. Blocks of other languages are what somebody comes from, or data.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.paths import ROOT
from pgq import embedded

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = {"sql", "python", "sh"}
# As in an environment with the package and without pytest-asyncio, which warns.
PYTEST = "-m pytest -p no:asyncio -p pgq.testing.pytest_plugin"
SHOWN = {"ini", "java", "json", "ruby", "text", "yaml"}


@dataclass(frozen=True)
class Reader:
    """Runs the blocks of a page on its own database and in its own directory."""

    server: embedded.Server
    dbname: str
    directory: Path

    def run(self, language: str, text: str) -> str:
        """Run one block; return its output."""
        if text.startswith("pip install "):
            return ""  # it fetches from outside what is here already
        environment = self.server.environment(self.dbname)
        if language == "sql":
            psql = str(self.server.psql)
            command = [psql, "-X", "-q", "-P", "footer=off", "-v", "ON_ERROR_STOP=1"]
            command += ["-v", "SHOW_CONTEXT=never"]
        elif language == "python":
            command = [sys.executable, "-W", "error", "-"]
        else:
            command = ["sh", "-e", "-c", self._shell(text)]
            environment["PATH"] = f"{self._tools()}:{environment['PATH']}"
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=environment,
            input="" if language == "sh" else text,
            stdout=subprocess.PIPE,
            # Errors of psql are shown: a page may be about them.
            stderr=subprocess.STDOUT if language == "sql" else subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        output = re.sub(r"^psql:<stdin>:\d+: ", "", done.stdout, flags=re.MULTILINE)
        return _trimmed(output) if output.strip() else ""

    def _shell(self, text: str) -> str:
        """Return commands to run; those of make only have to exist: they have their own tests."""
        dry = f"make --dry-run --directory={ROOT} "
        lines = re.sub(r"^make (.*)$", rf"{dry}\1 >/dev/null", text, flags=re.MULTILINE)
        return lines.replace("=pg_config", f"={self.server.program('pg_config')}")

    def _tools(self) -> Path:
        tools = self.directory / "bin"
        tools.mkdir(exist_ok=True)
        for name, arguments in (("pgq", "-m pgq"), ("python", ""), ("pytest", PYTEST)):
            command = tools / name
            command.write_text(f'#!/bin/sh\nexec {sys.executable} -W error {arguments} "$@"\n')
            command.chmod(0o755)
        return tools


def blocks(text: str) -> list[re.Match[str]]:
    """Return the blocks of a page."""
    return list(BLOCK.finditer(text))


def runs(text: str) -> bool:
    """Whether a page has anything to run."""
    return any(block[1] in RUN for block in blocks(text))


def printed(reader: Reader, text: str) -> str:
    """Run a page; return it with the current output of its blocks."""
    parts: list[str] = []
    end = 0
    output, shown = "", True
    assert not re.search(r"^ +```", text, re.MULTILINE), "an indented block is not run"
    for block in blocks(text):
        language = block[1]
        assert language in RUN | SHOWN, f"a block of {language} is not run by anything"
        if language == "text":
            parts += [text[end : block.start(2)], output]
            end = block.end(2)
            shown = True
        elif language in RUN:
            assert shown, f"nothing shows what was printed:\n{output}"
            output = reader.run(language, block[2])
            shown = language == "sql" or not output
    assert shown, f"nothing shows what was printed:\n{output}"
    return "".join([*parts, text[end:]])


def _trimmed(text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    # psql ends every table with an empty line; between two tables it is kept.
    return "\n".join(lines) + "\n"
