"""The specs below test/isolation, run by PostgreSQL's own isolation tester."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

import psycopg

from harness.install import check_invariants
from harness.paths import TEST
from harness.report import Report
from harness.server import embedded_server, psql
from pgq import embedded

SPECS = TEST / "isolation" / "specs"
EXPECTED = TEST / "isolation" / "expected"
TEMPLATE = "pgq_isolation_template"
SECONDS = 60


def run(report: Report, *, pattern: str = "", accept: bool = False) -> None:
    """Run the specs whose path contains `pattern`; take their output as expected if asked to."""
    with embedded_server() as server:
        tester = find_tester(server)
        server.create_database(TEMPLATE)
        psql(server, TEMPLATE, "-c", "create extension pgq")
        psql(server, TEMPLATE, "-f", TEST / "isolation" / "setup.sql")
        for spec in sorted(SPECS.rglob("*.spec")):
            if pattern in str(spec.relative_to(SPECS)):
                run_spec(report, server, tester, spec, accept=accept)


def find_tester(server: embedded.Server) -> Path:
    """Return the tester that came with the server, or that of another version."""
    for bin_dir in (server.bin_dir, *embedded.find_binaries(installed=True)):
        found = sorted(bin_dir.parent.glob("lib/**/test/isolation/isolationtester"))
        if found:
            return found[0]
    raise RuntimeError("no installed server has an isolationtester")


def environment(tester: Path) -> dict[str, str]:
    """Return the environment of the tester: some packages do not set the path of its libpq."""
    library = next(parent for parent in tester.parents if parent.name == "lib")
    return {"PGOPTIONS": "-c client_min_messages=warning", "LD_LIBRARY_PATH": str(library)}


def run_spec(
    report: Report, server: embedded.Server, tester: Path, spec: Path, *, accept: bool
) -> None:
    database = "pgq_isolation"
    dsn = server.create_database(database, template=TEMPLATE)
    try:
        with spec.open("rb") as stdin:
            done = subprocess.run(
                [tester, dsn],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=server.environment(database) | environment(tester),
                text=True,
                timeout=SECONDS,
                check=False,
            )
        with psycopg.connect(dsn, autocommit=True) as conn:
            wrong = check_invariants(conn)
    finally:
        server.drop_database(database)

    # Version 19 says of some rows that were deleted, not updated, that they were.
    printed = done.stdout.replace("due to concurrent delete", "due to concurrent update")
    expected = EXPECTED / spec.relative_to(SPECS).with_suffix(".out")
    if accept and done.returncode == 0:
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(printed, encoding="utf-8")
    before = expected.read_text(encoding="utf-8") if expected.exists() else ""
    problems = list(
        difflib.unified_diff(
            before.splitlines(), printed.splitlines(), "expected", "printed", lineterm=""
        )
    )
    if done.returncode != 0:
        problems.append(f"isolationtester ended with code {done.returncode}")
    problems += [f"pgq.check(): {line}" for line in wrong]
    print(f"{spec.stem:<60} {'ok' if not problems else 'FAILED'}", flush=True)
    report.check(spec.stem, "\n".join(problems))
