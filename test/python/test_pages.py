"""Every block of the documentation is run, page by page, and prints what the page says.

With PGQ_TEST_ACCEPT=1 the ``text`` blocks are rewritten to what is printed now.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from harness import pages
from harness.paths import ROOT
from harness.server import embedded_server
from pgq import embedded

DOC = ROOT / "extension" / "doc"
DOCUMENTATION = [
    ROOT / "README.md",
    *sorted(ROOT.glob("python/*.md")),
    *sorted(ROOT.glob("extension/*.md")),
    *sorted(DOC.glob("*.md")),
]
# The others are generated, have tests of their own, or nothing to run.
PAGES = [
    page
    for page in DOCUMENTATION
    if page.parent == DOC or page.name in ("README.md", "filter.md", "monitoring.md")
    if pages.runs(page.read_text(encoding="utf-8"))
]
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")


@pytest.fixture(scope="module")
def here() -> Iterator[embedded.Server]:
    """A server whose database "pages" has pgq, to be copied."""
    with embedded_server() as server:
        with psycopg.connect(server.create_database("pages"), autocommit=True) as conn:
            conn.execute("create extension pgq")
        yield server


def install_pgmq(conn: psycopg.Connection) -> None:
    """Install what the pages about pgmq come from, as its Python package carries it."""
    spec = find_spec("pgmq")
    assert spec is not None
    for place in spec.submodule_search_locations or []:
        conn.execute((Path(place) / "sql" / "pgmq.sql").read_bytes())


# These install pgq themselves.
BARE = {
    ROOT / "README.md",
    ROOT / "extension" / "monitoring.md",
    DOC / "tutorial.md",
    DOC / "managed.md",
}
BEFORE: dict[str, Callable[[psycopg.Connection], None]] = {"from-pgmq": install_pgmq}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_a_page_runs_and_prints_what_it_says(
    here: embedded.Server, tmp_path: Path, page: Path
) -> None:
    text = page.read_text(encoding="utf-8")
    database = re.sub(r"\W", "_", name(page)).lower()
    dsn = here.create_database(database, template="template1" if page in BARE else "pages")
    if page.stem in BEFORE:
        with psycopg.connect(dsn, autocommit=True) as conn:
            BEFORE[page.stem](conn)
    now = pages.printed(pages.Reader(here, database, tmp_path), text)
    if os.environ.get("PGQ_TEST_ACCEPT"):
        page.write_text(now, encoding="utf-8")
    else:
        assert now == text


def test_every_link_of_the_documentation_leads_to_a_file() -> None:
    broken = [
        f"{name(page)}: {link[1]}"
        for page in DOCUMENTATION
        for link in LINK.finditer(page.read_text(encoding="utf-8"))
        if not (page.parent / link[1]).exists()
    ]
    assert broken == []


def test_every_link_into_the_measurements_names_one_of_their_sections() -> None:
    sections = {
        file.stem
        for file in (ROOT / "test" / "bench").glob("*.py")
        if "def run(bench: Bench, section: Section)" in file.read_text(encoding="utf-8")
    }
    linked = {
        (page.name, section)
        for page in DOCUMENTATION
        for section in re.findall(r"benchmark\.md#([\w-]+)", page.read_text(encoding="utf-8"))
    }
    assert "README.md" in {page for page, _ in linked}
    assert {section for _, section in linked} <= sections


def test_the_index_lists_every_page() -> None:
    index = (DOC / "README.md").read_text(encoding="utf-8")
    listed = {link[1] for link in LINK.finditer(index)}
    assert {page.name for page in DOC.glob("*.md")} - {"README.md"} <= listed
