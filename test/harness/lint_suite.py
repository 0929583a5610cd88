"""Linters of the Python and SQL sources."""

from __future__ import annotations

import re
import subprocess
import sys
from argparse import Namespace
from tempfile import NamedTemporaryFile

import pglast
import psycopg
from pgspot.state import Counter, State
from pgspot.visitors import visit_sql

from harness import debian
from harness.paths import ROOT
from harness.report import Report
from pgq import __version__, embedded

sys.path.insert(0, str(ROOT / "sql"))
import build

PYTHON = ["python", "sql", "test"]
CONFIG = str(ROOT / "python" / "pyproject.toml")
WIDTH = 100
# Each of these files alone reads and writes a session setting.
SETTINGS = {"sql/46_upkeep/low.sql", "sql/50_claim/cursor.sql"}

CHECK_FUNCTIONS = """
select p.oid::regprocedure::text, c.lineno, c.level, c.message, c.detail, c.hint
  from pg_proc p
  join pg_language l on l.oid = p.prolang and l.lanname = 'plpgsql'
  left join pg_trigger t on t.tgfoid = p.oid and not t.tgisinternal and t.tgparentid = 0
 cross join lateral plpgsql_check_function_tb(
           p.oid, coalesce(t.tgrelid, 0), fatal_errors => false, other_warnings => true,
           performance_warnings => true, extra_warnings => true, security_warnings => true,
           compatibility_warnings => true, oldtable => t.tgoldtable, newtable => t.tgnewtable) c
 where p.pronamespace in ('pgq'::regnamespace, 'pgmq'::regnamespace)
   and (p.prorettype <> 'trigger'::regtype or t.oid is not null)
   -- It takes the untyped literal that initialises a variable for a text.
   and not (c.sqlstate = '42804' and c.statement = 'statement block'
            and c.detail like 'cast "text"%')
   -- An immutable function that raises our own error is called while the plan is made.
   and c.sqlstate not like 'QU%'
   -- Volatile for a snapshot of its own, as its source says.
   and not (p.proname in ('leased', '_late_rows') and c.message like 'routine is marked%')
   -- It does not see that rows are locked in a subquery.
   and not (p.proname in ('_lane_heads', '_lane_matches', '_lane_rows', '_next_slot')
            and c.message like 'routine is marked%')
   -- GRANT and REVOKE take no parameters: constants, and the name of a role by %I.
   and not (p.proname in ('_set_access', '_close_types') and c.level = 'security')
   -- As pgmq has them.
   and not (p.pronamespace = 'pgmq'::regnamespace
            and (c.message like 'routine is marked%' or c.message like 'unused parameter%'))
 order by 1, 2
"""


def run(report: Report) -> None:
    report.check("ruff check", tool("ruff", "check", "--quiet", *PYTHON))
    report.check("ruff format", tool("ruff", "format", "--check", "--quiet", *PYTHON))
    report.check("mypy", tool("mypy"))
    report.check("pyright", tool("pyright", "--pythonpath", sys.executable))
    report.check("layout of the SQL sources", layout())
    report.check("the walk of a message in design.md", walk())
    report.check("one function per file", rooms())
    report.check("chapters look down", chapters())
    report.check("pgspot", pgspot())
    report.check("plpgsql_check", plpgsql_check())


def tool(name: str, *arguments: str) -> str:
    """Run a linter in the top directory; return its output if it fails."""
    options = {"ruff": "--config", "mypy": "--config-file", "pyright": "--project"}
    option = [options[name], CONFIG] if name in options else []
    done = subprocess.run(
        [sys.executable, "-m", name, *arguments, *option],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout or f"{name} ended with {done.returncode}"


def layout() -> str:
    """Return lines that violate .editorconfig."""
    wrong = []
    for file in [*sorted((ROOT / "sql").rglob("*.sql")), *sorted((ROOT / "test").rglob("*.sql"))]:
        text = file.read_text(encoding="utf-8")
        name = file.relative_to(ROOT)
        if not text.endswith("\n") or text.endswith("\n\n"):
            wrong.append(f"{name}: ends with one line feed")
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > WIDTH:
                wrong.append(f"{name}:{number}: longer than {WIDTH} columns")
            if line != line.rstrip() or "\t" in line:
                wrong.append(f"{name}:{number}: trailing space or tab")
    return "\n".join(wrong)


def walk() -> str:
    """Return the functions whose number of lines differs from the one in design.md."""
    sources = "".join(
        file.read_text(encoding="utf-8") for file in sorted((ROOT / "sql").glob("*/*.sql"))
    )
    design = (ROOT / "extension" / "design.md").read_text(encoding="utf-8")
    table = design.partition("## The walk of a message")[2].partition("\n## ")[0]
    wrong = []
    for name, stated in re.findall(r"`(\w+)` \((\d+)\)", table):
        found = re.search(
            rf"^create or replace function pgq\.{name}\(.*?^(?:\$\$|end);$",
            sources,
            re.DOTALL | re.MULTILINE,
        )
        lines = found[0].count("\n") + 1 if found else 0
        if lines != int(stated):
            wrong.append(f"{name}: {lines} lines, not {stated}")
        if lines > 120:
            wrong.append(f"{name}: {lines} lines are more than 120")
    return "\n".join(wrong) if table else "no such section"


def rooms() -> str:
    """Return the files with several functions that are more than an expression."""
    wrong = []
    for source in build.read_sources(ROOT, __version__):
        # A public function and the private one of the same name count as one.
        names = {
            name.removeprefix("_")
            for name, language in re.findall(
                r"^create or replace (?:function|procedure) pgq\.(\w+).*?^language (\w+)",
                source.text,
                re.DOTALL | re.MULTILINE,
            )
            if language == "plpgsql"
        }
        if len(names) > 1 and source.path not in SETTINGS:
            wrong.append(f"{source.path}: {', '.join(sorted(names))}")
    return "\n".join(wrong)


def chapters() -> str:
    """Return the references to functions of a later chapter, and those between 40 and 50."""
    sources = build.read_sources(ROOT, __version__)
    home = {
        name: source.chapter
        for source in sources
        for name in re.findall(
            r"^create or replace (?:function|procedure|view) pgq\.(\w+)", source.text, re.MULTILINE
        )
    }
    wrong = []
    for source in sources:
        code = re.sub(r"--.*|'(?:[^']|'')*'", "", source.text)  # hints may name anything
        for name in sorted(set(re.findall(r"\bpgq\.(\w+)\(", code))):
            there = home.get(name, 0)
            if there > source.chapter or (source.chapter, there) == (50, 40):
                wrong.append(f"{source.path}: knows pgq.{name} of chapter {there}")
    return "\n".join(wrong)


def pgspot() -> str:
    """Return what pgspot finds in the sources, as they are run on an empty schema."""
    return pgspot_of(build.read_sources(ROOT, __version__)) + pgspot_of(build.read_pgmq(ROOT))


def pgspot_of(sources: list[build.Source]) -> str:
    # The script runs in a new schema, or one of its own: it cannot replace objects of others.
    script = "\n".join(re.sub(r"(?m)^create or replace\b", "create", s.text) for s in sources)
    script = f"set local search_path = pg_catalog, pg_temp;\n{script}"
    script = script.replace("\n\\", "\n \\")  # pgspot would take it for a command of psql
    script = script.encode("ascii", "replace").decode()  # so that bytes and characters agree
    whole: list[str] = []
    outside: list[str] = []
    for raw in pglast.parse_sql(script):
        statement = script[raw.stmt_location : raw.stmt_location + raw.stmt_len]
        # SQL-standard bodies are not for pgspot: they are bound to their objects when they are
        # created, under the script's own search_path.
        if getattr(raw.stmt, "sql_body", None) is None:
            (whole if is_readable(statement) else outside).append(statement)
    pin = [whole[0]]
    return run_pgspot(whole) + run_pgspot(pin + outside, "--no-plpgsql")


def is_readable(statement: str) -> bool:
    """Whether pgspot can parse the body; variables of a row type are not supported."""
    options = Namespace(plpgsql=True, summary_only=True, ignore=[], ignore_lang=[])
    options.proc_without_search_path = options.sql_accepting = []
    try:
        visit_sql(State(Counter(options)), statement)
    except Exception:
        return False
    return True


def run_pgspot(statements: list[str], *options: str) -> str:
    with NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(";\n".join(statements) + ";\n")
        file.flush()
        # A procedure that commits can pin no search_path: it names the schema of all it uses.
        unpinned = ["--proc-without-search-path", "pgq.maintain(until_done boolean)"]
        return tool("pgspot", *options, *unpinned, file.name)


def plpgsql_check() -> str:
    """Return what plpgsql_check finds in the functions of an installed extension."""
    linter = debian.unpack("plpgsql_check", "postgresql-{major}-plpgsql-check")
    library = next(linter.glob("usr/lib/postgresql/*/lib/plpgsql_check.so"))
    major = library.parents[1].name
    share = linter / "usr/share/postgresql" / major
    with debian.postgres(major) as bin_dir:
        server = embedded.Server(bin_dir, extension_dir=[ROOT, share], durable=False)
        try:
            server.add_library(library)
            server.start()
            with psycopg.connect(server.dsn(), autocommit=True) as conn:
                conn.execute("create extension pgq_pgmq cascade")
                conn.execute("create extension plpgsql_check")
                rows = conn.execute(CHECK_FUNCTIONS).fetchall()
        finally:
            server.close()
    return "\n".join(
        f"{name}:{line}: {level}: {' '.join(filter(None, rest))}"
        for name, line, level, *rest in rows
    )
