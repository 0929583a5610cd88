"""Cost of notifications for publishers."""

from __future__ import annotations

import re
import statistics
import subprocess
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.cluster import Bench, Session
from bench.measure import alternate
from bench.report import Section
from bench.systems import HEADERS, PAYLOADS
from bench.waiting import Consumer

CLIENTS = 16

# Remove the notification code of all functions that publish: they read no listeners and wake none.
WITHOUT = """
do $do$
declare
    v_source text;
    v_count int := 0;
begin
    for v_source in
        select pg_get_functiondef(p.oid) from pg_proc p
        where p.pronamespace = 'pgq'::regnamespace
          and p.prosrc like '%exists (select from pgq.waiter)%'
          and p.proname !~ 'claim|take'
    loop
        execute replace(v_source, 'exists (select from pgq.waiter)', 'false');
        v_count := v_count + 1;
    end loop;
    assert v_count > 0, 'publishing finds listeners in another way now';
    create or replace function pgq._wake(queue_id int) returns void language plpgsql
        as 'begin end';
end
$do$
"""


def run(bench: Bench, section: Section) -> None:
    section.say(
        f"Messages per second of {CLIENTS} connections that publish single messages, each in "
        "its own transaction, beside one consumer:"
    )
    section.points(
        "Busy: the consumer always finds a message.",
        "Keeping up: the consumer often finds no message and waits for a notification.",
        "Always: a listener is registered all the time, so every commit sends a notification.",
    )
    with ExitStack() as stack:
        silent = stack.enter_context(bench.database())
        normal = stack.enter_context(bench.database())
        for dsn in (silent, normal):
            with Session(dsn) as session:
                session.execute("select pgq.create_queue('busy')")
        with Session(silent) as session:
            session.execute(WITHOUT)
        rates = alternate(
            bench.pick(1, 5),
            {
                "no notification code, busy": partial(rate, bench, silent, "busy"),
                "busy": partial(rate, bench, normal, "busy"),
                "keeping up": partial(rate, bench, normal, "keeping up"),
                "always": partial(rate, bench, normal, "always"),
            },
        )
    base = statistics.median(rates["no notification code, busy"])
    rows = []
    for name, found in rates.items():
        share = 100 * statistics.median(found) / base
        verdict = ""
        if name == "busy":
            verdict = section.at_least("publishing with a busy consumer: rate", share, 90, "%")
        rows.append([name, f"{statistics.median(found):,.0f}", f"{share:.0f} %", verdict])
    section.table(["consumer", "messages/s", "of the rate without", ""], rows)


def rate(bench: Bench, dsn: str, consumer: str) -> float:
    """Publish for some seconds; return the number of messages per second."""
    with ExitStack() as stack:
        session = stack.enter_context(Session(dsn))
        if consumer == "always":
            session.execute("listen " + session.value("select pgq.channel('busy')"))
            session.execute("select pgq.wait_begin('busy', 'bench', '1 hour')")
        stack.enter_context(worker(dsn, consumer))
        published = pgbench(bench, session.conn.info.dbname)
        session.execute("select pgq.wait_end('busy', 'bench')")
    with Session(dsn) as session:
        session.execute(
            "select pgq.ack(lease_id) from (select distinct lease_id "
            "from pgq.claim('busy', n => 1000000)) c"
        )
        session.execute("vacuum pgq.ready, pgq.lease, pgq.waiter")
    return published


def worker(dsn: str, consumer: str) -> AbstractContextManager[object]:
    if consumer == "always":
        return nullcontext()
    # A busy consumer works for a while after each claim, so that it never finds the queue empty.
    return Consumer(dsn, "busy", 100, lambda _: None, pause=0.1 if consumer == "busy" else 0.0)


def pgbench(bench: Bench, dbname: str) -> float:
    with TemporaryDirectory() as scratch:
        script = Path(scratch) / "publish.sql"
        script.write_text(f"select pgq.publish('busy', '{PAYLOADS[0]}', '{HEADERS}');\n")
        done = subprocess.run(
            [
                bench.server.program("pgbench"),
                "-n",
                "-M",
                "prepared",
                "-c",
                str(CLIENTS),
                "-j",
                "2",
                "-T",
                str(bench.pick(1, 10)),
                "-f",
                script,
                dbname,
            ],
            env=bench.server.environment(dbname),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    found = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"pgbench: {done.stdout}")
    return float(found[1])
