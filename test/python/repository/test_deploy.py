"""The pieces for deployment: what they name is there, and what they ask can be asked."""

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


def test_the_query_of_keda_counts_what_is_ready(db: psycopg.Connection) -> None:
    [trigger] = yaml.safe_load((DEPLOY / "keda.yaml").read_text())["spec"]["triggers"]
    db.execute("select pgq.create_queue('orders')")
    db.execute("select pgq.publish_batch('orders', '{1,2,3}')")
    assert db.execute(trigger["metadata"]["query"].encode()).fetchone() == (3,)


def test_the_image_copies_what_a_server_needs() -> None:
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


def test_the_script_for_pg_tle_registers_whole_extensions(db: psycopg.Connection) -> None:
    """A stand-in of pgtle.install_extension runs what it gets, as CREATE EXTENSION does."""
    db.execute("drop extension if exists pgq cascade")
    db.execute("drop schema if exists pgq cascade")
    db.execute(
        """
        create schema pgtle;
        create table pgtle.seen (name text, version text, requires text[]);
        create function pgtle.install_extension(
            name text, version text, description text, ext text, requires text[] default null
        ) returns boolean language plpgsql as $$
        begin
            insert into pgtle.seen values (name, version, requires);
            execute regexp_replace(
                ext, 'select pg_catalog.pg_extension_config_dump[^;]*;', '', 'g');
            return true;
        end
        $$
        """
    )
    with db.transaction():
        db.execute(migrations.script("tle").encode())
    assert db.execute("select * from pgtle.seen").fetchall() == [
        ("pgq", __version__, ["plpgsql"]),
        ("pgq_pgmq", __version__, ["pgq"]),
    ]
    db.execute("select pgmq.create('orders'), pgmq.send('orders', '1')")
    assert db.execute("select payload from pgq.claim('orders')").fetchone() == (1,)
