"""The files for deployment: the files that they name exist, and their queries run."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
import yaml

from harness.paths import ROOT
from pgq import __version__, migrations

DEPLOY = ROOT / "extension" / "deploy"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_of_make(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    runs = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    called = {word for run in runs for word in re.findall(r"make ([a-z-]+)", run)}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert called
    assert called <= targets


def test_the_query_of_keda_counts_ready_messages(db: psycopg.Connection) -> None:
    [trigger] = yaml.safe_load((DEPLOY / "keda.yaml").read_text())["spec"]["triggers"]
    db.execute("select pgq.create_queue('orders')")
    db.execute("select pgq.publish_batch('orders', '{1,2,3}')")
    assert db.execute(trigger["metadata"]["query"].encode()).fetchone() == (3,)


def test_the_image_copies_all_files_of_the_extension() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    found = {
        file.name
        for pattern in re.findall(r"extension/([\w*.-]+) ", text)
        for file in (ROOT / "extension").glob(pattern)
    }
    wanted = {"pgq.control", "pgq_pgmq.control"}
    wanted |= {f"pgq--{__version__}.sql", f"pgq_pgmq--{__version__}.sql"}
    assert wanted <= found
    documents = list(yaml.safe_load_all((DEPLOY / "cloudnative-pg.yaml").read_text()))
    assert [document["kind"] for document in documents] == ["Cluster", "Database"]


# Stands in for pg_tle: registers scripts, and runs one as CREATE and ALTER EXTENSION do.
PG_TLE = r"""
create schema pgtle;
create table pgtle.script (name text, source text, target text, requires text[], script text,
                           primary key (name, source, target));
create table pgtle.control (name text primary key, version text, installed text);
create function pgtle.available_extensions() returns table (name name, default_version text)
    language sql as 'select name, version from pgtle.control';
create function pgtle.available_extension_versions() returns table (name name, version text)
    language sql as $$select name, target from pgtle.script where source = ''$$;
create function pgtle.install_extension(name text, version text, description text, ext text,
                                        requires text[] default null) returns boolean
    language sql as $$
        insert into pgtle.script values (name, '', version, requires, ext);
        insert into pgtle.control values (name, version);
        select true $$;
create function pgtle.install_extension_version_sql(name text, version text, ext text)
    returns boolean language sql as $$
        insert into pgtle.script values (name, '', version, null, ext);
        select true $$;
create function pgtle.install_update_path(name text, fromvers text, tovers text, ext text)
    returns boolean language sql as $$
        insert into pgtle.script values (name, fromvers, tovers, null, ext);
        select true $$;
create function pgtle.uninstall_update_path_if_exists(extname text, fromvers text, tovers text)
    returns boolean language sql as $$
        delete from pgtle.script
        where (name, source, target) = (extname, fromvers, tovers);
        select true $$;
create function pgtle.set_default_version(name text, version text) returns boolean
    language sql as $$
        update pgtle.control c set version = $2 where c.name = $1;
        select true $$;
create function pgtle.extend(extension text) returns void language plpgsql as $$
declare
    v_control pgtle.control;
begin
    select * into strict v_control from pgtle.control where name = extension;
    execute (select regexp_replace(
                 script, 'select pg_catalog.pg_extension_config_dump[^;]*;', '', 'g')
             from pgtle.script
             where name = extension and source = coalesce(v_control.installed, '')
               and target = v_control.version);
    update pgtle.control set installed = version where name = extension;
end
$$;
"""


def test_the_script_for_pg_tle_registers_whole_extensions_and_their_updates(
    db: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("drop extension if exists pgq cascade")
    db.execute("drop schema if exists pgq cascade")
    db.execute(PG_TLE.encode())
    for _ in range(2):  # it can be run again
        db.execute(migrations.script("tle").encode())
    assert db.execute("select name, version from pgtle.control order by 1").fetchall() == [
        ("pgq", __version__),
        ("pgq_pgmq", __version__),
    ]
    assert db.execute("select requires from pgtle.script order by name").fetchall() == [
        (["plpgsql"],),
        (["pgq"],),
    ]
    db.execute("select pgtle.extend('pgq'), pgtle.extend('pgq_pgmq')")
    db.execute("select pgmq.create('orders'), pgmq.send('orders', '1')")
    assert db.execute("select payload from pgq.claim('orders')").fetchone() == (1,)
    # The next release, with the script that its build makes for this one.
    (tmp_path / "extension").mkdir()
    for name in ("pgq", "pgq_pgmq"):
        here = tmp_path / "extension"
        (here / f"{name}.control").write_text("comment = 'newer'\n")
        for versions in ("99.0.0", f"{__version__}--99.0.0"):
            (here / f"{name}--{versions}.sql").write_text(f"create table {name}_newer ();\n")
    monkeypatch.setattr(migrations, "extension_parent", lambda: tmp_path)
    monkeypatch.setattr(migrations, "extension_version", lambda: "99.0.0")
    for _ in range(2):
        db.execute(migrations.script("tle").encode())
    db.execute("select pgtle.extend('pgq')")
    assert db.execute("select installed from pgtle.control where name = 'pgq'").fetchone() == (
        "99.0.0",
    )
