"""The pgTAP files below test/sql, each in its own database."""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile

from harness import debian
from harness.paths import TEST
from harness.report import Report
from harness.server import RunningServer, Server, embedded_server, psql

TEMPLATE = "pgq_template"
RESULT = re.compile(r"^(not )?ok \d+(?!.*# (?:TODO|SKIP))", re.MULTILINE)


def run(report: Report, *, pattern: str = "", running: bool = False) -> None:
    """Run the files whose path contains `pattern`, on a running server if asked to."""
    tools = debian.unpack(
        "pgtap", "postgresql-{major}-pgtap", "libtap-parser-sourcehandler-pgtap-perl"
    )
    files = [
        file
        for file in sorted((TEST / "sql").rglob("*.sql"))
        if not file.name.startswith("_") and pattern in str(file.relative_to(TEST))
    ]
    if not files:
        report.bad(f"no test file matches {pattern!r}")
        return
    where: AbstractContextManager[Server] = (
        nullcontext(RunningServer()) if running else embedded_server()
    )
    with where as server:
        try:
            make_template(server, tools)
            workers = max(1, min(4, (os.cpu_count() or 1)))
            with ThreadPoolExecutor(workers) as pool:
                numbered = enumerate(files)
                for file, output, code in pool.map(lambda f: prove(server, tools, *f), numbered):
                    count(report, file, output, code)
        finally:
            server.drop_database(TEMPLATE)


def make_template(server: Server, tools: Path) -> None:
    """Make the database that every test file starts from."""
    server.drop_database(TEMPLATE)
    server.create_database(TEMPLATE)
    psql(server, TEMPLATE, "-c", "create extension pgq")
    # pgTAP needs no files on the server when its script is run without the guard for extensions.
    scripts = tools.glob("usr/share/postgresql/*/extension/pgtap--*.sql")
    script = next(file for file in scripts if re.fullmatch(r"pgtap--[0-9.]+\.sql", file.name))
    with NamedTemporaryFile("w", suffix=".sql") as plain:
        plain.writelines(
            line for line in script.open(encoding="utf-8") if not line.startswith("\\")
        )
        plain.flush()
        psql(server, TEMPLATE, "-1", "-o", os.devnull, "-f", plain.name)
    for helper in sorted((TEST / "sql").glob("_*.sql")):
        psql(server, TEMPLATE, "-1", "-o", os.devnull, "-f", helper)


def prove(server: Server, tools: Path, number: int, file: Path) -> tuple[Path, str, int]:
    database = f"pgq_test_{number}"
    server.drop_database(database)
    server.create_database(database, template=TEMPLATE)
    try:
        done = subprocess.run(
            [
                "perl",
                f"-I{tools}/usr/share/perl5",
                tools / "usr/bin/pg_prove",
                "--verbose",
                "--psql-bin",
                server.program("psql"),
                file,
            ],
            env=server.environment(database),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    finally:
        server.drop_database(database)
    return file, done.stdout, done.returncode


def count(report: Report, file: Path, output: str, code: int) -> None:
    results = RESULT.findall(output)
    passed = results.count("")
    report.good(passed)
    name = str(file.relative_to(TEST))
    print(f"{name:<60} {passed:>4} ok", flush=True)
    if code != 0:
        quiet = [line for line in output.splitlines() if not re.match(r"ok\b", line)]
        report.bad(name, "\n".join(quiet), count=max(1, len(results) - passed))
