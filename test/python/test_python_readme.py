"""Every block of python/README.md is run, in order, and prints what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
from test_readme import BLOCK, run

from harness.paths import ROOT
from harness.server import embedded_server
from pgq import embedded

README = ROOT / "python" / "README.md"


def shell(server: embedded.Server, text: str, directory: Path) -> str:
    """Run commands with ``pgq`` on the path; return what they print on stdout."""
    command = directory / "pgq"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -W error -m pgq "$@"\n')
    command.chmod(0o755)
    environment = server.environment()
    done = subprocess.run(
        ["sh", "-e", "-c", text],
        cwd=directory,
        env=environment | {"PATH": f"{directory}:{environment['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_block_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    blocks = [match.groups() for match in BLOCK.finditer(README.read_text(encoding="utf-8"))]
    languages = []
    with embedded_server() as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
        for (language, text), (following, said) in zip(
            blocks, [*blocks[1:], ("", "")], strict=True
        ):
            if language == "text" or text.startswith("pip "):
                continue
            languages.append(language)
            printed = (
                shell(server, text, tmp_path) if language == "sh" else run(server, language, text)
            )
            assert printed.strip() == (said.strip() if following == "text" else "")
    assert set(languages) == {"python", "sh"}
