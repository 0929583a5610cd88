"""Messages that kill the process that handles them, in batches with innocent ones.

Workers are processes that end with os._exit as soon as they meet a killer; the lease of their
batch expires. At the end every killer is a dead letter, and every other message is done once.
"""

from __future__ import annotations

import multiprocessing
import os
import time

import psycopg

from harness.install import check_invariants, install_plain
from harness.paths import ROOT
from harness.report import Report
from harness.server import SETTINGS
from pgq import embedded

WORKERS = 4
DIED = 42

TABLES = """
create table sent (id bigint primary key, killer boolean);
create table done (id bigint, attempt int);
select pgq.create_queue('danger', lease => '300 ms', max_attempts => 2, backoff => '10 ms',
                        max_backoff => '10 ms');
"""

LAWS = {
    "no innocent message is a dead letter": "select s.id, d.reason from sent s"
    " join pgq.dead_letter d on d.message_id = s.id where not s.killer",
    "every innocent message is done": "select id from sent where not killer"
    " except select id from done",
    "nothing is done twice": "select id from done group by id having count(*) > 1",
    "every killer is a dead letter": "select id from sent where killer"
    " except select message_id from pgq.dead_letter where reason = 'timeout'",
    "no killer is done": "select id from sent join done using (id) where killer",
}


def work(dsn: str, size: int) -> None:
    """Handle batches one message after the other, until one of them kills."""
    with psycopg.connect(dsn) as conn:
        while True:
            rows = conn.execute(
                "select lease_id, id, (payload ->> 'kill')::boolean, attempt"
                " from pgq.claim('danger', n => %s)",
                [size],
            ).fetchall()
            conn.commit()
            if not rows:
                time.sleep(0.05)
                continue
            for _, _, kills, _ in rows:
                if kills:
                    os._exit(DIED)
            try:
                with conn.transaction(), conn.cursor() as cursor:
                    cursor.executemany(
                        "insert into done values (%s, %s)", [(r[1], r[3]) for r in rows]
                    )
                    cursor.execute("select pgq.ack(%s)", [rows[0][0]])
            except psycopg.Error as error:
                if error.sqlstate != "QU003":  # too slow: another has them now
                    raise


def run(report: Report, *, messages: int, killers: int) -> None:
    """Deliver that many messages, some of which kill."""
    with embedded.start(extension_dir=ROOT, settings=SETTINGS, durable=False) as server:
        dsn = server.dsn()
        with psycopg.connect(dsn, autocommit=True) as conn:
            install_plain(conn)
            conn.execute(TABLES)
            conn.execute(
                "with new as (insert into pgq.message (topic, payload) select 'danger',"
                " jsonb_build_object('kill', i %% (%(messages)s / %(killers)s) = 1)"
                " from generate_series(1, %(messages)s::int) i returning id, payload)"
                " insert into sent select id, (payload ->> 'kill')::boolean from new",
                {"messages": messages, "killers": killers},
            )
            deaths = deliver(conn, dsn)
            for law, query in LAWS.items():
                wrong = conn.execute(query.encode()).fetchmany(5)
                report.check(f"killers: {law}", "\n".join(map(str, wrong)))
            report.check("killers: pgq.check()", "\n".join(check_invariants(conn)))
            row = conn.execute("select count(*) filter (where attempt > 1) from done").fetchone()
            assert row is not None
            print(f"{messages} messages, {killers} killers, {deaths} deaths, {row[0]} redeliveries")


def deliver(conn: psycopg.Connection, dsn: str) -> int:
    """Run workers until nothing is left; return how many were killed by their messages."""
    context = multiprocessing.get_context("fork")
    sizes = [1, 10, 100, 100]
    workers: list[multiprocessing.process.BaseProcess | None] = [None] * WORKERS
    deaths = 0
    left = "select exists (select from pgq.message_state where state <> 'dead')"
    deadline = time.monotonic() + 300
    try:
        while conn.execute(left).fetchone() == (True,):
            assert time.monotonic() < deadline, "messages are left"
            for i, worker in enumerate(workers):
                if worker is None or not worker.is_alive():
                    if worker is not None:
                        assert worker.exitcode == DIED, f"a worker ended with {worker.exitcode}"
                        deaths += 1
                    born = context.Process(target=work, args=(dsn, sizes[i]), daemon=True)
                    born.start()
                    workers[i] = born
            time.sleep(0.1)
    finally:
        for worker in workers:
            if worker is not None:
                worker.kill()
                worker.join()
    return deaths
