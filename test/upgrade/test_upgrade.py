"""A fresh, an upgraded and a plain installation have the same objects."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from chaos.chaos import TABLES, Chaos
from harness.fingerprint import fingerprint
from harness.install import install_plain
from harness.paths import ROOT, TEST
from harness.report import Report
from harness.server import embedded_server, psql
from pgq import __version__, embedded

sys.path.insert(0, str(ROOT / "sql"))
import build

Database = Callable[[str], psycopg.Connection]

RECORDED = TEST / "upgrade" / "expected" / f"{__version__}.txt"
NEXT = f"{__version__}.next"

DELTA = """\
create table pgq.new_in_next (
    new_in_next_id bigint generated always as identity constraint new_in_next_pkey primary key
);
comment on table pgq.new_in_next is 'made by a delta';
revoke all on table pgq.new_in_next from public;

select pg_catalog.pg_extension_config_dump('pgq.new_in_next', '');
"""

NEW_CODE = """\
create or replace function pgq.new_in_next() returns bigint
    language sql stable
    set search_path = pg_catalog, pg_temp
begin atomic
    select count(*) from pgq.new_in_next;
end;
comment on function pgq.new_in_next() is 'counts';
revoke all on function pgq.new_in_next() from public;
"""


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source tree one step ahead: a new table, a new function and the delta between."""
    tree = tmp_path_factory.mktemp("next")
    shutil.copytree(ROOT / "sql", tree / "sql")
    shutil.copytree(ROOT / "extension", tree / "extension")
    control = tree / "extension" / "pgq.control"
    control.write_text(control.read_text().replace(f"'{__version__}'", f"'{NEXT}'"))
    (tree / "sql" / "19_next").mkdir()
    (tree / "sql" / "19_next" / "new_in_next.sql").write_text(DELTA)
    (tree / "sql" / "99_next").mkdir()
    (tree / "sql" / "99_next" / "new_in_next.sql").write_text(NEW_CODE)
    (tree / "sql" / "upgrade").mkdir(exist_ok=True)
    (tree / "sql" / "upgrade" / f"{__version__}--{NEXT}.sql").write_text(DELTA)
    for name, text in build.build(tree).items():
        (tree / "extension" / name).write_text(text)
    return tree


@pytest.fixture(scope="module")
def here(next_version: Path) -> Iterator[embedded.Server]:
    """A server with the files of this version and the next one; this one is the default."""
    with embedded_server(next_version, ROOT) as server:
        yield server


@pytest.fixture
def database(here: embedded.Server) -> Iterator[Database]:
    """A function that makes a database and connects to it."""
    made: dict[str, psycopg.Connection] = {}

    def database(name: str) -> psycopg.Connection:
        made[name] = psycopg.connect(here.create_database(name), autocommit=True)
        return made[name]

    yield database
    for name, conn in made.items():
        conn.close()
        here.drop_database(name)


def different(one: list[str], other: list[str]) -> list[str]:
    """Return the lines that only one side has."""
    return [f"- {line}" for line in one if line not in other] + [
        f"+ {line}" for line in other if line not in one
    ]


def run_sources(conn: psycopg.Connection) -> None:
    """Run the code chapters one file after the other, as a developer would with psql."""
    conn.execute((ROOT / "sql" / "01_lock.sql").read_bytes())
    for source in build.read_sources(ROOT, __version__):
        if not source.is_state:
            conn.execute(source.text.encode())


def test_a_fresh_installation_has_the_recorded_catalog(database: Database) -> None:
    conn = database("fresh")
    conn.execute("create extension pgq")
    found = fingerprint(conn, extension=True)
    if os.environ.get("PGQ_TEST_ACCEPT"):
        RECORDED.parent.mkdir(exist_ok=True)
        RECORDED.write_text("\n".join(found) + "\n", encoding="utf-8")
    recorded = RECORDED.read_text(encoding="utf-8").split("\n")[:-1] if RECORDED.exists() else []
    assert different(recorded, found) == [], "if this is meant: make test-upgrade ACCEPT=1"


def test_replaying_the_code_changes_nothing(database: Database) -> None:
    conn = database("replay")
    conn.execute("create extension pgq")
    before = fingerprint(conn, extension=True)
    run_sources(conn)
    assert different(before, fingerprint(conn, extension=True)) == []


def test_the_plain_script_makes_the_same_objects_as_the_extension(database: Database) -> None:
    extension, plain = database("extension"), database("plain")
    extension.execute("create extension pgq")
    install_plain(plain)
    assert different(fingerprint(extension), fingerprint(plain)) == []


def test_the_plain_script_leaves_the_search_path_alone(database: Database) -> None:
    conn = database("plain")
    conn.execute("set search_path = public, pg_catalog")
    with conn.transaction():
        install_plain(conn)
        assert conn.execute("show search_path").fetchone() == ("public, pg_catalog",)


def test_the_plain_script_refuses_a_foreign_schema(database: Database) -> None:
    conn = database("plain")
    conn.execute("create schema pgq")
    with pytest.raises(psycopg.errors.DuplicateSchema):
        install_plain(conn)


def test_the_plain_upgrade_to_the_same_version_changes_nothing(database: Database) -> None:
    conn = database("plain")
    install_plain(conn)
    conn.execute("select pgq.create_queue('q')")
    before = fingerprint(conn)
    install_plain(conn)
    assert conn.execute("select count(*) from pgq.queue").fetchone() == (1,)
    assert different(before, fingerprint(conn)) == []


def test_the_plain_upgrade_refuses_an_extension(database: Database) -> None:
    conn = database("extension")
    conn.execute("create extension pgq")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        install_plain(conn)


def test_the_extension_refuses_a_foreign_schema(database: Database) -> None:
    conn = database("extension")
    conn.execute("create schema pgq")
    with pytest.raises(psycopg.errors.DuplicateSchema):
        conn.execute("create extension pgq")


def test_the_extension_refuses_a_plain_installation(database: Database) -> None:
    conn = database("plain")
    install_plain(conn)
    with pytest.raises(psycopg.errors.DuplicateSchema):
        conn.execute("create extension pgq")


def test_psql_runs_the_script(here: embedded.Server, database: Database) -> None:
    conn = database("plain")
    psql(here, "plain", "-f", ROOT / "extension" / f"pgq--{__version__}.sql")
    assert conn.execute("select pgq.version()").fetchone() == (__version__,)


def test_an_upgrade_refuses_to_be_run_by_psql(here: embedded.Server, next_version: Path) -> None:
    script = next_version / "extension" / f"pgq--{__version__}--{NEXT}.sql"
    assert psql(here, "postgres", "-f", script).startswith('Use "CREATE EXTENSION pgq"')


def test_a_database_owner_needs_no_superuser(here: embedded.Server, database: Database) -> None:
    admin = database("owned")
    admin.execute("create role owner login")
    try:
        admin.execute("alter database owned owner to owner")
        with psycopg.connect(here.dsn("owned", user="owner"), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("select pgq.create_queue('orders')")
            conn.execute("select pgq.publish('orders', '{}')")
            assert len(conn.execute("select from pgq.claim('orders')").fetchall()) == 1
            conn.execute("drop extension pgq")
            assert fingerprint(conn) == []
    finally:
        admin.execute("drop owned by owner cascade")
        admin.execute("alter database owned owner to postgres")
        admin.execute("drop role owner")


def test_an_owner_who_is_no_superuser_grants_rights(
    here: embedded.Server, database: Database
) -> None:
    admin = database("owned")
    admin.execute("create role owner login")
    admin.execute("create role guest login")
    try:
        admin.execute("alter database owned owner to owner")
        with psycopg.connect(here.dsn("owned", user="owner"), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("select pgq.create_queue('orders'), pgq.create_queue('secret')")
            conn.execute("select pgq.grant_queue('orders', 'guest', 'publish')")
            with psycopg.connect(here.dsn("owned", user="guest"), autocommit=True) as guest:
                guest.execute("select pgq.publish('orders', '{}')")
                guest.execute("insert into pgq.message (topic, payload) values ('orders', '{}')")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    guest.execute("select pgq.publish('secret', '{}')")
            assert len(conn.execute("select from pgq.claim('orders', n => 9)").fetchall()) == 2
            conn.execute("select pgq.revoke_queue('orders', 'guest', 'publish')")
        # A superuser of the server may use what the owner has made.
        assert admin.execute("select count(pgq.publish('secret', '{}'))").fetchone() == (1,)
        admin.execute("drop role guest")
    finally:
        admin.execute("drop role if exists guest")
        admin.execute("drop owned by owner cascade")
        admin.execute("alter database owned owner to postgres")
        admin.execute("drop role owner")


def test_the_next_version_is_reached_by_an_upgrade(database: Database) -> None:
    fresh, upgraded = database("fresh"), database("upgraded")
    fresh.execute(f"create extension pgq version '{NEXT}'".encode())
    upgraded.execute("create extension pgq")
    upgraded.execute(f"alter extension pgq update to '{NEXT}'".encode())
    assert any("new_in_next" in line for line in fingerprint(fresh))
    assert (
        different(fingerprint(fresh, extension=True), fingerprint(upgraded, extension=True)) == []
    )


def test_the_next_version_is_reached_by_a_plain_upgrade(
    database: Database, next_version: Path
) -> None:
    fresh, upgraded = database("fresh"), database("upgraded")
    script = (next_version / "extension" / f"pgq--{NEXT}.sql").read_bytes()
    fresh.execute(script)
    install_plain(upgraded)
    upgraded.execute(script)
    assert different(fingerprint(fresh), fingerprint(upgraded)) == []


def test_an_upgrade_keeps_a_constraint_of_ones_own(database: Database) -> None:
    conn = database("upgraded")
    conn.execute("create extension pgq")
    conn.execute("select pgq.create_queue('q')")
    conn.execute("alter table pgq.message add constraint mine check (sender is not null) not valid")
    conn.execute(f"alter extension pgq update to '{NEXT}'".encode())
    with pytest.raises(psycopg.errors.CheckViolation):
        conn.execute("select pgq.publish('q', '1')")
    conn.execute("select pgq.publish('q', '1', sender => 'me')")


def test_an_upgrade_releases_its_locks_while_it_waits(
    here: embedded.Server, database: Database
) -> None:
    """A transaction reads a view, which the upgrade locks, and then publishes: no deadlock."""
    conn = database("upgraded")
    conn.execute("create extension pgq")
    conn.execute("select pgq.create_queue('q')")
    with (
        psycopg.connect(here.dsn("upgraded")) as user,
        ThreadPoolExecutor(1) as thread,
    ):
        user.execute("select * from pgq.queue_stats")
        upgrade = thread.submit(conn.execute, f"alter extension pgq update to '{NEXT}'".encode())
        time.sleep(0.5)
        user.execute("select * from pgq.dead_letter")
        user.execute("select pgq.publish('q', '1')")
        assert not upgrade.done()
        user.commit()
        upgrade.result(30)
    assert conn.execute("select pgq.new_in_next()").fetchone() == (0,)
    assert conn.execute("show lock_timeout").fetchone() == ("0",)


def test_an_upgrade_under_load_loses_nothing(next_version: Path, tmp_path: Path) -> None:
    """Workers run while the next version is installed and while code is replayed."""
    report = Report("upgrade under load")
    with (
        embedded_server(next_version, ROOT) as server,
        psycopg.connect(server.dsn(), autocommit=True) as conn,
    ):
        conn.execute("create extension pgq")
        conn.execute(TABLES)
        with Chaos(server, server.dsn(tcp=True), tmp_path, seed=1) as chaos:
            chaos.start_workers("publish", "consume", "read")
            chaos.wait_for_work(2000)
            conn.execute(f"alter extension pgq update to '{NEXT}'".encode())
            for _ in range(5):
                chaos.wait_for_work(500)
                with conn.transaction():
                    run_sources(conn)
            chaos.wait_for_work(2000)
            chaos.watch_workers()
            chaos.end_workers(signal.SIGTERM)
            assert conn.execute("select pgq.new_in_next()").fetchone() == (0,)
            chaos.conclude(report)
    assert report.failures == []


@pytest.mark.parametrize("old", sorted(build.read_deltas(ROOT, __version__)) or [__version__])
def test_every_released_version_can_be_upgraded(database: Database, old: str) -> None:
    fresh, upgraded = database("fresh"), database("upgraded")
    fresh.execute("create extension pgq")
    upgraded.execute(f"create extension pgq version '{old}'".encode())
    upgraded.execute("alter extension pgq update")
    assert (
        different(fingerprint(fresh, extension=True), fingerprint(upgraded, extension=True)) == []
    )


def test_dropping_the_schema_public_keeps_the_queues(database: Database) -> None:
    conn = database("reset")
    conn.execute("create extension pgq")
    conn.execute("select pgq.create_queue('q')")
    conn.execute("select pgq.publish('q', '1')")
    conn.execute("drop schema public cascade")
    assert conn.execute("select payload from pgq.claim('q')").fetchone() == (1,)
    conn.execute(f"alter extension pgq update to '{NEXT}'".encode())
    assert conn.execute("select pgq.new_in_next()").fetchone() == (0,)
    conn.execute("drop extension pgq")
    assert fingerprint(conn) == []
