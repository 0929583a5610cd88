"""Build every SQL script that pgq ships from the sources beside this file.

    python3 sql/build.py                 write the scripts into extension/
    python3 sql/build.py --check         compare with extension/, write nothing
    python3 sql/build.py --root DIR      the same for another source tree

What is built, for the version V named by extension/pgq.control:

    pgq--V.sql               CREATE EXTENSION: the guard and all chapters, without "or replace"
    pgq--OLD--V.sql          ALTER EXTENSION UPDATE, for each OLD that sql/upgrade can start from:
                             all locks, the hand-written deltas from OLD to V, then all code again
    pgq-plain.sql            the objects of pgq--V.sql for servers without file access
    pgq-plain-upgrade.sql    brings any older plain installation to V

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
OR_REPLACE = re.compile(r"^(create) or replace\b", re.MULTILINE)
UNREPEATABLE = re.compile(r"^create (?!or replace\b).*", re.MULTILINE)
CONFIG_DUMP = re.compile(r"^select pg_catalog\.pg_extension_config_dump\([^;]*\);\n+", re.MULTILINE)
PLACEHOLDER = "@pgq_version@"
QUOTE = "$pgq_script$"

PLAIN_INSTALL = """\
-- pgq {version}, for servers on which no extension files can be installed.
--
-- Run it once with any client: psql -f pgq-plain.sql, or as one statement from a program.
-- It is a single statement, so that it either succeeds or leaves nothing behind.
do {outer}
declare
    v_search_path text := pg_catalog.current_setting('search_path');
begin
    if pg_catalog.to_regnamespace('pgq') is not null then
        raise exception 'schema "pgq" already exists'
            using errcode = 'duplicate_schema',
                  hint = 'Run pgq-plain-upgrade.sql to upgrade an installation of pgq.';
    end if;
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
{steps}
    perform pg_catalog.set_config('search_path', v_search_path, true);
end
{outer};
"""

PLAIN_UPGRADE = """\
-- Upgrades what pgq-plain.sql installed, from any version since {oldest}, to pgq {version}.
--
-- Run it with any client: psql -f pgq-plain-upgrade.sql, or as one statement from a program.
-- It is a single statement, so that it either succeeds or changes nothing.
do {outer}
declare
    v_search_path text := pg_catalog.current_setting('search_path');
    v_version text;
begin
    if exists (select from pg_catalog.pg_extension where extname = 'pgq') then
        raise exception 'pgq is installed as an extension'
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Use ALTER EXTENSION pgq UPDATE.';
    end if;
    if pg_catalog.to_regprocedure('pgq.version()') is null then
        raise exception 'pgq is not installed in this database'
            using errcode = 'undefined_object', hint = 'Run pgq-plain.sql first.';
    end if;
    v_version := pgq.version();
    if v_version <> all (array[{versions}]) then
        raise exception 'pgq % cannot be upgraded to {version} by this script', v_version
            using errcode = 'feature_not_supported';
    end if;
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
{steps}
    perform pg_catalog.set_config('search_path', v_search_path, true);
end
{outer};
"""


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
        raise BuildError(f"{source.path}: the quote {QUOTE} is reserved for the plain scripts")
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


def first_time(source: Source) -> str:
    """Return a source as run on an empty schema, where nothing may be replaced."""
    return OR_REPLACE.sub(r"\1", source.text)


def without_extension(text: str) -> str:
    return CONFIG_DUMP.sub("", text + "\n").rstrip("\n") + "\n"


def execute(source: Source, text: str, indent: str = "    ") -> str:
    return f"{indent}execute {QUOTE}\n{titled(source, text)}{QUOTE};"


def build(root: Path) -> dict[str, str]:
    """Return the built scripts: their text by file name."""
    version = read_version(root)
    guard = (root / "sql" / "00_guard.sql").read_text(encoding="utf-8").strip() + "\n"
    lock = (root / "sql" / "01_lock.sql").read_text(encoding="utf-8").strip() + "\n"
    sources = read_sources(root, version)
    code = [source for source in sources if not source.is_state]
    chains = read_deltas(root, version)

    head = f"-- pgq {version}: built from sql/ by sql/build.py; edit the sources.\n\n{guard}"
    scripts = {
        f"pgq--{version}.sql": "\n".join(
            [head, *(titled(source, first_time(source)) for source in sources)]
        )
    }
    replay = [titled(source, source.text) for source in code]
    for old, chain in chains.items():
        deltas = [titled(source, source.text) for source in chain]
        scripts[f"pgq--{old}--{version}.sql"] = "\n".join([head, lock, *deltas, *replay])

    scripts["pgq-plain.sql"] = PLAIN_INSTALL.format(
        version=version,
        outer="$pgq_plain$",
        steps="\n".join(execute(s, without_extension(first_time(s))) for s in sources),
    )
    order = sorted(chains, key=lambda old: -len(chains[old]))
    steps = [execute(Source("sql/01_lock.sql", 0, lock), lock)]
    for old in order:
        delta = chains[old][0]
        new = Path(delta.path).stem.split("--")[1]
        steps.append(
            f"    if v_version = '{old}' then\n"
            + execute(delta, without_extension(delta.text), indent="        ")
            + f"\n        v_version := '{new}';\n    end if;"
        )
    steps += [execute(source, without_extension(source.text)) for source in code]
    scripts["pgq-plain-upgrade.sql"] = PLAIN_UPGRADE.format(
        version=version,
        oldest=[*order, version][0],
        versions=", ".join(f"'{v}'" for v in [*order, version]),
        outer="$pgq_plain$",
        steps="\n".join(steps),
    )
    return scripts


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
