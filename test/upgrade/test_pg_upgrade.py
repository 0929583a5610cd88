"""pg_upgrade to a newer PostgreSQL keeps the queues."""

from __future__ import annotations

import psycopg
import pytest

from harness import versions
from harness.contents import contents
from harness.install import check_invariants
from harness.server import SETTINGS
from pgq import embedded

WORK = """
select pgq.create_queue('orders', lane_keys => '{type}', lease => '1 day', max_attempts => 2,
                        backoff => '1 hour', max_backoff => '1 hour');
select pgq.subscribe('audit', 'orders', '{"type": "paid"}');
select pgq.publish('orders', to_jsonb(i),
                   jsonb_build_object('type', (array['paid', 'new'])[i % 2 + 1]),
                   group_key => case when i % 10 = 0 then 'g' end)
from generate_series(1, 1000) i;
select pgq.publish('orders', '"later"', delay => '1 day', dedup_key => 'once');
select count(pgq.ack(lease_id, array[id])) from pgq.claim('orders', n => 100);
select count(*) from pgq.claim('orders', '{"type": "paid"}', n => 50, key => 'batch');
select pgq.nack(min(lease_id)) from pgq.claim('orders', n => 20);
select pgq.bury(min(lease_id)) from pgq.claim('audit', n => 20);
select count(*) from pgq.claim('audit', '{"never": 1}', n => 20);
"""


@pytest.fixture
def majors() -> tuple[int, int]:
    """The oldest and the newest that can be upgraded from and to."""
    complete = {
        versions.version(directory)
        for directory in embedded.find_binaries(installed=True)
        if (directory / "pg_upgrade").exists() and (directory / "pg_controldata").exists()
    }
    if len(complete) < 2:
        pytest.skip("pg_upgrade needs all programs of two majors of PostgreSQL")
    return min(complete), max(complete)


def test_queues_survive_pg_upgrade(majors: tuple[int, int]) -> None:
    old_major, new_major = majors
    with (
        embedded.start(versions.server(old_major), durable=False, settings=SETTINGS) as old,
        embedded.start(versions.server(new_major), durable=False, settings=SETTINGS) as new,
    ):
        assert old.major < new.major
        with psycopg.connect(old.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute(WORK)
            assert check_invariants(conn) == []
            again = "select id from pgq.claim('orders', key => 'batch') order by id"
            taken = conn.execute(again).fetchall()
            before = contents(conn)
        old.stop()
        new.stop()
        if new.major >= 18 > old.major:
            new.run("pg_checksums", "--disable", "-D", new.data)  # as initdb did it before 18
        new.run(
            "pg_upgrade",
            "-U",
            "postgres",
            "-b",
            old.bin_dir,
            "-B",
            new.bin_dir,
            "-d",
            old.data,
            "-D",
            new.data,
            "-s",
            new.root,
        )
        new.start()
        with psycopg.connect(new.dsn(), autocommit=True) as conn:
            assert contents(conn) == before
            assert check_invariants(conn) == []
            assert conn.execute(again).fetchall() == taken
            first = conn.execute("select pgq.publish('orders', '1') > max(id) from pgq.message")
            assert first.fetchone() == (True,)
            conn.execute("call pgq.maintain()")
            # All that is ready can be claimed, by a filter that remembers how far it looked too.
            ready = "select sum(ready) from pgq.queue_stats where queue = 'orders'"
            left = conn.execute(ready).fetchone()
            found = conn.execute("select count(*) from pgq.claim('orders', n => 10000)").fetchone()
            assert found == left
            conn.execute("select pgq.publish('orders', '1', '{\"type\": \"paid\", \"never\": 1}')")
            match = "select count(*) from pgq.claim('audit', '{\"never\": 1}', n => 20)"
            assert conn.execute(match).fetchone() == (1,)
            assert check_invariants(conn) == []
