"""Every Python block of python/README.md is run, in order, and prints what it says."""

from __future__ import annotations

import re

import psycopg
from test_readme import BLOCK, run

from harness.paths import ROOT
from harness.server import embedded_server

README = ROOT / "python" / "README.md"


def test_every_python_block_runs_and_prints_what_it_says() -> None:
    blocks = [match.groups() for match in BLOCK.finditer(README.read_text(encoding="utf-8"))]
    with embedded_server() as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
        for (language, text), (following, said) in zip(
            blocks, [*blocks[1:], ("", "")], strict=True
        ):
            if language == "python":
                printed = run(server, language, text)
                assert printed.strip() == (said.strip() if following == "text" else "")
    assert re.search(r"^```python", README.read_text(encoding="utf-8"), re.MULTILINE)
