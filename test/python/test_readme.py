"""Every block of the README is run, in order, on one database.

The output of an ``sql`` block is what psql prints for it, shown in the ``text`` block behind it.
With PGQ_TEST_ACCEPT=1 the ``text`` blocks are rewritten to what is printed now.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.paths import ROOT
from harness.server import embedded_server
from pgq import embedded

README = ROOT / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def here() -> Iterator[embedded.Server]:
    with embedded_server() as server:
        yield server


def run(server: embedded.Server, language: str, text: str) -> str:
    """Run one block as its reader would; return what it printed."""
    if language == "sql":
        command = [str(server.psql), "-X", "-q", "-P", "footer=off", "-v", "ON_ERROR_STOP=1"]
    elif language == "python":
        command = [sys.executable, "-W", "error", "-"]
    elif language == "sh":
        # Every command must exist; what it does has tests of its own.
        dry = re.sub(r"^make ", "make --dry-run ", text, flags=re.MULTILINE)
        command = ["sh", "-e", "-c", dry.replace("=pg_config", f"={server.program('pg_config')}")]
    else:
        raise AssertionError(f"a block of {language} is not run by anything")
    done = subprocess.run(
        command, cwd=ROOT, env=server.environment(), input=text, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return "" if language == "sh" else trimmed(done.stdout)


def trimmed(text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    # psql ends every table with an empty line; between two tables it is kept.
    return "\n".join(lines) + "\n"


def test_every_block_of_the_readme_runs_and_prints_what_it_says(here: embedded.Server) -> None:
    text = README.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert blocks
    printed, told, corrected, end = "", [], [], 0
    for block in blocks:
        language, content = block.groups()
        if language == "text":
            corrected += [text[end : block.start(2)], printed]
            end = block.end(2)
            told.append((content, printed))
        else:
            printed = run(here, language, content)
    if os.environ.get("PGQ_TEST_ACCEPT"):
        README.write_text("".join([*corrected, text[end:]]), encoding="utf-8")
        return
    for said, was in told:
        assert said == was


def test_every_link_into_the_measurements_names_one_of_their_sections() -> None:
    sections = {
        file.stem
        for file in (ROOT / "test" / "bench").glob("*.py")
        if "def run(bench: Bench, section: Section)" in file.read_text(encoding="utf-8")
    }
    pages = [README, *(ROOT / "extension").glob("*.md"), *(ROOT / "python").glob("*.md")]
    links = {
        (page.name, name)
        for page in pages
        for name in re.findall(r"benchmark\.md#([\w-]+)", page.read_text(encoding="utf-8"))
    }
    assert "README.md" in {page for page, _ in links}
    assert {name for _, name in links} <= sections
