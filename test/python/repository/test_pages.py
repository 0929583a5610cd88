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
    ROOT / ".github" / "CONTRIBUTING.md",
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
    """Install pgmq for the pages about it, from the script of its Python package."""
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
    DOC / "frameworks.md",
}
BEFORE: dict[str, Callable[[psycopg.Connection], None]] = {"from-pgmq": install_pgmq}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_a_page_prints_the_expected_output(
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


def test_the_table_of_errors_has_every_error_of_the_sources() -> None:
    page = (DOC / "troubleshooting.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w{5})` \|", page, re.MULTILINE))
    raised = {
        getattr(psycopg.errors, code.title().replace("_", "")).sqlstate if "_" in code else code
        for source in (ROOT / "sql").rglob("*.sql")
        for code in re.findall(r"errcode = '(\w+)'", source.read_text(encoding="utf-8"))
    }
    assert raised - {"QU000"} <= listed  # QU000 never leaves its function


def test_the_page_about_settings_has_every_variable() -> None:
    page = (DOC / "settings.md").read_text(encoding="utf-8")
    sources = [*ROOT.glob("python/src/**/*.py"), *ROOT.glob("sql/**/*.sql")]
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    read = set(re.findall(r"\bPGQ_[A-Z_]+\b", text))
    read |= set(re.findall(r"current_setting\('(pgq\.[a-z_]+[a-z])', true", text))
    kept = {"pgq.warned"}  # what a session remembers: nobody sets it
    assert "PGQ_DSN" in read
    assert sorted(name for name in read - kept if f"`{name}`" not in page) == []


def test_the_page_about_troubles_has_every_finding() -> None:
    page = (DOC / "troubleshooting.md").read_text(encoding="utf-8")
    found = {
        finding
        for source in (ROOT / "sql" / "82_findings").glob("*_findings.sql")
        for finding in re.findall(
            r"(?:'(?:warning|critical)'|end), (?:q\.name|j\.name|null(?:::text)?),\s+'(\w+)'",
            source.read_text(encoding="utf-8"),
        )
    }
    assert "relay_silent" in found
    assert [finding for finding in sorted(found) if f"`{finding}`" not in page] == []
