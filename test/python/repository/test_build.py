"""The build: its output, and the sources that it rejects."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from harness.paths import ROOT

sys.path.insert(0, str(ROOT / "sql"))
import build

STATE = """\
create schema pgq;
create table pgq.thing (n int);
select pg_catalog.pg_extension_config_dump('pgq.thing', '');
"""
CODE = (
    "create or replace function pgq.version() returns text language sql return '@pgq_version@';\n"
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small source tree of version 3."""
    write(tmp_path / "extension/pgq.control", "default_version = '3'\n")
    write(tmp_path / "sql/00_guard.sql", "\\echo no \\quit\n")
    write(tmp_path / "sql/01_lock.sql", "lock table pgq.thing;\n")
    write(tmp_path / "sql/10_schema/10_schema.sql", STATE)
    write(tmp_path / "sql/80_observe/version.sql", CODE)
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_install_script_is_one_statement_for_both_ways(tree: Path) -> None:
    script = build.build(tree)["pgq--3.sql"]
    assert "\\echo" not in script
    assert [s.startswith("do $pgq_install$") for s in statements(script)] == [True]
    assert "return '3'" in script
    state, rest = script.split("if v_extension then\n", 1)
    assert "create table pgq.thing" in state
    assert "pg_extension_config_dump" not in state
    assert rest.index("pg_extension_config_dump") < rest.index("create or replace function")


def test_an_upgrade_locks_runs_all_steps_and_then_the_code(tree: Path) -> None:
    write(tree / "sql/upgrade/1--2.sql", "alter table pgq.thing add two int;\n")
    write(tree / "sql/upgrade/2--3.sql", "alter table pgq.thing add three int;\n")
    scripts = build.build(tree)
    whole, last = scripts["pgq--1--3.sql"], scripts["pgq--2--3.sql"]
    assert whole.index("lock table") < whole.index("two int")
    assert whole.index("two int") < whole.index("three int") < whole.index("create or replace")
    assert "two int" not in last
    assert "create table" not in whole
    assert "pgq--1--2.sql" not in scripts
    plain = scripts["pgq--3.sql"]
    assert "array['1', '2', '3']" in plain
    assert plain.index("lock table") < plain.index("two int") < plain.index("three int")
    assert plain.index("three int") < plain.index("create or replace")


def test_without_an_extension_nothing_is_registered(tree: Path) -> None:
    write(tree / "sql/upgrade/2--3.sql", STATE.replace("create schema pgq;\n", ""))
    scripts = build.build(tree)
    assert scripts["pgq--3.sql"].count("pg_extension_config_dump") == 1
    assert scripts["pgq--2--3.sql"].count("pg_extension_config_dump") == 1


def statements(script: str) -> list[str]:
    """Return the statements of a script whose quotes are those of dollars only."""
    code = re.sub(r"^--.*\n", "", script, flags=re.MULTILINE)
    outside = re.sub(r"(\$pgq_install\$).*\1", r"\1", code, flags=re.DOTALL)
    return [part.strip() for part in outside.split(";") if part.strip()]


def test_stale_scripts_are_found(tree: Path) -> None:
    write(tree / "extension/pgq--1--2.sql", "")
    scripts = build.build(tree)
    assert build.stale(tree, scripts) == sorted([*scripts, "pgq--1--2.sql"])


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("sql/80_observe/t.sql", "create table pgq.t ();\n", "not repeatable"),
        ("sql/80_observe/t.sql", "create function pgq.f() ...\n", "not repeatable"),
        ("sql/10_schema/t.sql", "perform pg_extension_config_dump('x', '');\n", "registration"),
        ("sql/10_schema/t.sql", "select $pgq_script$x$pgq_script$;\n", "reserved"),
        ("sql/upgrade/1--2.sql", "\n", "end at 2, not at 3"),
        ("sql/upgrade/3--3.sql", "\n", "circle"),
    ],
)
def test_what_cannot_work_is_refused(tree: Path, path: str, text: str, complaint: str) -> None:
    write(tree / path, text)
    with pytest.raises(build.BuildError, match=complaint):
        build.build(tree)
