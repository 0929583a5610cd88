"""Build every SQL script that pgq ships from the sources beside this file.

    python3 sql/build.py                 write the scripts into extension/
    python3 sql/build.py --check         compare with extension/, write nothing
    python3 sql/build.py --root DIR      the same for another source tree

What is built, for the version V named by extension/pgq.control:

    pgq--V.sql               all of pgq, a single statement: CREATE EXTENSION runs it, and so can
                             any client on a server without file access; there it also upgrades
    pgq--OLD--V.sql          ALTER EXTENSION UPDATE, for each OLD that sql/upgrade can start from:
                             all locks, the hand-written deltas from OLD to V, then all code again
    pgq_pgmq--V.sql          the schema pgmq (sql/pgmq), an extension of its own that requires pgq;
                             it can be run by any client just as well

Chapters 10 to 19 are state and run once. Chapters 20 to 99 are code and are replayed by every
upgrade, so each statement in them has to be repeatable.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

VERSION = re.compile(r"^default_version\s*=\s*'([^']+)'", re.MULTILINE)
UNREPEATABLE = re.compile(r"^create (?!or replace\b).*", re.MULTILINE)
CONFIG_DUMP = re.compile(r"^select pg_catalog\.pg_extension_config_dump\([^;]*\);\n+", re.MULTILINE)
PLACEHOLDER = "@pgq_version@"
QUOTE = "$pgq_script$"
# Annotations that are replaced by settings of a function: "-- @worker" before its body.
PROFILES = {
    # Workers call it. Row estimates for id sets are far too large, and statistics may be from a
    # time when a table was empty: plans must not depend on them.
    "worker": """\
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
""",
    # Publishers call it: the same, but it may sort.
    "publisher": """\
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
""",
}
PROFILE = re.compile(r"^-- @(\w+)\n", re.MULTILINE)

#: What a reader of the script should know first.
ESSAY = {
    "pgq": """\
-- How it works. A message is one immutable row of pgq.message, the log. The state of messages is
-- stored beside the log as sets of message ids: pgq.ready has the sets that can be claimed,
-- pgq.scheduled those that are due later, pgq.lease those that consumers hold.
--
-- publish (or any INSERT into pgq.message) writes the message and adds its id to a ready row of
-- every queue that receives its topic. claim deletes ready rows and inserts a lease; lease_id is
-- the token for ack, nack, bury, release and extend. ack deletes the lease. nack, or an expired
-- lease, moves the ids back to ready or scheduled; after max_attempts the message becomes a row of
-- pgq.dead_letter, and replay puts it back.
--
-- maintain() rotates the log: it copies unfinished messages forward and truncates the oldest of
-- three partitions. Nothing is deleted from the log row by row. Claims do the urgent maintenance,
-- so that no daemon is needed.
--
-- Functions whose names begin with _ are private. Each file of sql/ begins with its name.""",
    "pgq_pgmq": """\
-- Serves the functions of pgmq, in the schema pgmq, from queues of the extension pgq.""",
}

SCRIPT = """\
-- {name} {version}: built from sql/ by sql/build.py; edit the sources.
--
-- CREATE EXTENSION {name} runs this. On a server where no extension files can be installed, run it
-- with any client: psql -f, or as one statement from a program; run it again to upgrade. It is a
-- single statement, so that it either succeeds or changes nothing.
--
{essay}
do $pgq_install$
declare
    v_search_path text := pg_catalog.current_setting('search_path');
    v_check_bodies text := pg_catalog.current_setting('check_function_bodies');
    v_extension boolean;  -- this is run by CREATE EXTENSION, or there is such an extension
    v_version text;       -- installed by this script before; null: not at all
begin
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    perform pg_catalog.set_config('check_function_bodies', 'on', true);
    v_extension := exists (select from pg_extension where extname = '{name}');
{before}
    if v_version is null then
{state}
    end if;
    if v_extension then
{registrations}
    end if;
{code}
    perform pg_catalog.set_config('check_function_bodies', v_check_bodies, true);
    perform pg_catalog.set_config('search_path', v_search_path, true);
end
$pgq_install$;
"""

PGQ_BEFORE = """\
    if to_regnamespace('pgq') is not null then
        if exists (
            select from pg_depend d join pg_extension e on e.oid = d.refobjid
            where d.classid = 'pg_namespace'::regclass and d.objid = 'pgq'::regnamespace
              and d.refclassid = 'pg_extension'::regclass and d.deptype = 'e')
        then
            raise exception 'pgq is installed as an extension'
                using errcode = 'object_not_in_prerequisite_state',
                      hint = 'Use ALTER EXTENSION pgq UPDATE.';
        elsif v_extension or to_regprocedure('pgq.version()') is null then
            raise exception 'schema "pgq" already exists'
                using errcode = 'duplicate_schema',
                      hint = 'Something else is there, or pgq without being an extension.';
        end if;
        v_version := pgq.version();
        if v_version <> all (array[{versions}]) then
            raise exception 'pgq % cannot be upgraded to {version} by this script', v_version
                using errcode = 'feature_not_supported';
        end if;
{deltas}
    end if;"""

PGMQ_BEFORE = """\
    if to_regprocedure('pgq.version()') is null then
        raise exception 'pgq is not installed in this database'
            using errcode = 'undefined_object', hint = 'Install it first.';
    end if;
    if to_regnamespace('pgmq') is not null then
        if v_extension or to_regclass('pgmq.asked_for') is null then
            raise exception 'schema "pgmq" already exists'
                using errcode = 'duplicate_schema',
                      hint = 'If pgmq itself is installed, move its queues and drop it first.';
        end if;
        v_version := '{version}';
    end if;"""


class BuildError(Exception):
    """A source that cannot be built; the message names the file and the cure."""


@dataclass(frozen=True)
class Source:
    """One file below sql/, with the chapter it belongs to."""

    path: str
    chapter: int
    text: str

    @property
    def is_state(self) -> bool:
        return 10 <= self.chapter <= 19


def read_version(root: Path) -> str:
    control = root / "extension" / "pgq.control"
    found = VERSION.search(control.read_text(encoding="utf-8"))
    if not found:
        raise BuildError(f"{control}: no default_version")
    return found[1]


def read_sources(root: Path, version: str) -> list[Source]:
    """Return the chapters 10 to 99 in byte order of their paths."""
    sources = []
    base = root / "sql"
    for file in sorted(base.glob("[0-9][0-9]_*/**/*.sql"), key=lambda p: p.as_posix().encode()):
        path = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8").replace(PLACEHOLDER, version)
        text = PROFILE.sub(lambda found: PROFILES[found[1]], text)
        source = Source(path, int(file.relative_to(base).parts[0][:2]), text.strip() + "\n")
        check(source)
        sources.append(source)
    if not sources:
        raise BuildError(f"{base}: no chapters found")
    return sources


def check(source: Source) -> None:
    if source.chapter < 10:
        raise BuildError(f"{source.path}: chapters start at 10")
    if QUOTE in source.text:
        raise BuildError(f"{source.path}: the quote {QUOTE} is reserved for the script")
    if "pg_extension_config_dump" in CONFIG_DUMP.sub("", source.text + "\n"):
        raise BuildError(
            f"{source.path}: write each registration as one statement that starts a line with"
            " 'select pg_catalog.pg_extension_config_dump('"
        )
    if not source.is_state and (found := UNREPEATABLE.search(source.text)):
        raise BuildError(
            f"{source.path}: not repeatable: {found[0]!r}; "
            "code says 'create or replace', state belongs to chapters 10 to 19"
        )


def read_deltas(root: Path, version: str) -> dict[str, list[Source]]:
    """Return, for each version an upgrade can start from, the deltas that lead to this one."""
    steps: dict[str, tuple[str, Source]] = {}
    for file in sorted((root / "sql" / "upgrade").glob("*--*.sql")):
        old, new = file.stem.split("--")
        path = file.relative_to(root).as_posix()
        if old in steps:
            raise BuildError(f"{path}: a second step from {old}")
        text = file.read_text(encoding="utf-8").replace(PLACEHOLDER, version)
        steps[old] = new, Source(path, 0, text.strip() + "\n")
    chains: dict[str, list[Source]] = {}
    for start in steps:
        chain, at = [], start
        while at in steps:
            at, source = steps[at]
            chain.append(source)
            if len(chain) > len(steps):
                raise BuildError(f"sql/upgrade: the steps from {start} form a circle")
        if at != version:
            raise BuildError(f"sql/upgrade: the steps from {start} end at {at}, not at {version}")
        chains[start] = chain
    return chains


def titled(source: Source, text: str) -> str:
    return f"-- {source.path}\n\n{text}"


def without_extension(text: str) -> str:
    return CONFIG_DUMP.sub("", text + "\n").rstrip("\n") + "\n"


def registrations(sources: list[Source]) -> str:
    """Return the statements that only an extension can run: which tables a dump contains."""
    found = [text for source in sources for text in CONFIG_DUMP.findall(source.text + "\n")]
    return f"        execute {QUOTE}\n{''.join(text.strip() + chr(10) for text in found)}{QUOTE};"


def execute(source: Source, text: str, indent: str = "    ") -> str:
    return f"{indent}execute {QUOTE}\n{titled(source, without_extension(text))}{QUOTE};"


def install(name: str, version: str, before: str, sources: list[Source]) -> str:
    """Return the script that installs an extension, with or without CREATE EXTENSION."""
    state = [source for source in sources if source.is_state]
    code = [source for source in sources if not source.is_state]
    return SCRIPT.format(
        name=name,
        version=version,
        essay=ESSAY[name],
        before=before,
        state="\n".join(execute(source, source.text, " " * 8) for source in state),
        registrations=registrations(state),
        code="\n".join(execute(source, source.text) for source in code),
    )


def build(root: Path) -> dict[str, str]:
    """Return the built scripts: their text by file name."""
    version = read_version(root)
    guard = (root / "sql" / "00_guard.sql").read_text(encoding="utf-8").strip() + "\n"
    lock = (root / "sql" / "01_lock.sql").read_text(encoding="utf-8").strip() + "\n"
    sources = read_sources(root, version)
    code = [source for source in sources if not source.is_state]
    chains = read_deltas(root, version)

    order = sorted(chains, key=lambda old: -len(chains[old]))
    steps = [execute(Source("sql/01_lock.sql", 0, lock), lock, " " * 8)]
    for old in order:
        delta = chains[old][0]
        new = Path(delta.path).stem.split("--")[1]
        steps.append(
            f"        if v_version = '{old}' then\n"
            + execute(delta, delta.text, " " * 12)
            + f"\n            v_version := '{new}';\n        end if;"
        )
    before = PGQ_BEFORE.format(
        version=version,
        versions=", ".join(f"'{v}'" for v in [*order, version]),
        deltas="\n".join(steps),
    )
    scripts = {f"pgq--{version}.sql": install("pgq", version, before, sources)}

    head = f"-- pgq {version}: built from sql/ by sql/build.py; edit the sources.\n\n{guard}"
    replay = [titled(source, source.text) for source in code]
    for old, chain in chains.items():
        deltas = [titled(source, source.text) for source in chain]
        scripts[f"pgq--{old}--{version}.sql"] = "\n".join([head, lock, *deltas, *replay])
    return scripts | build_pgmq(root, version)


def build_pgmq(root: Path, version: str) -> dict[str, str]:
    """Return the script of the extension pgq_pgmq; a tree without its sources has none."""
    sources = read_pgmq(root)
    if not sources:
        return {}
    before = PGMQ_BEFORE.format(version=version)
    return {f"pgq_pgmq--{version}.sql": install("pgq_pgmq", version, before, sources)}


def read_pgmq(root: Path) -> list[Source]:
    sources = []
    base = root / "sql" / "pgmq"
    for file in sorted(base.rglob("*.sql"), key=lambda p: p.as_posix().encode()):
        chapter = int(file.relative_to(base).parts[0][:2])
        text = PROFILE.sub(lambda found: PROFILES[found[1]], file.read_text(encoding="utf-8"))
        source = Source(file.relative_to(root).as_posix(), chapter, text.strip() + "\n")
        check(source)
        sources.append(source)
    return sources


def stale(root: Path, scripts: dict[str, str]) -> list[str]:
    """Return the names of scripts in extension/ that differ from what the sources build."""
    here = root / "extension"
    wrong = [
        name
        for name, text in scripts.items()
        if not (here / name).exists() or (here / name).read_text(encoding="utf-8") != text
    ]
    # Install scripts of older versions stay; upgrades lead to this version only.
    wrong += [f.name for f in here.glob("pgq--*--*.sql") if f.name not in scripts]
    return sorted(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    try:
        scripts = build(options.root)
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    wrong = stale(options.root, scripts)
    if options.check:
        for name in wrong:
            print(f"build: extension/{name} is not what the sources build; run make build")
        return 1 if wrong else 0
    for name in wrong:
        target = options.root / "extension" / name
        if name in scripts:
            target.write_text(scripts[name], encoding="utf-8")
        else:
            target.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
