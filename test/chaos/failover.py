"""The server dies under load and its standby takes over.

Replication is synchronous, so that nothing may be missing which a worker was told to be committed.
Workers and consumers know both servers from the beginning and find the one that accepts writes.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

import pgq
from chaos.chaos import TABLES, Chaos, wait_for
from harness.install import install_plain
from harness.paths import ROOT
from harness.report import Report
from harness.server import SETTINGS
from pgq import embedded


class Mail:
    """A publisher that retries until it succeeds, and a `pgq.Consumer`."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.sent: set[int] = set()
        self.received: set[int] = set()
        self.stopping = threading.Event()

    def publish(self) -> None:
        while not self.stopping.is_set():
            with suppress(psycopg.OperationalError), psycopg.connect(self.dsn) as conn:
                while not self.stopping.is_set():
                    id = pgq.Client(conn).publish("mail", {})
                    conn.commit()
                    self.sent.add(id)
                    time.sleep(0.01)

    def handle(self, message: pgq.Message) -> None:
        self.received.add(message.id)


def run(report: Report, *, rounds: int = 1) -> None:
    for number in range(1, rounds + 1):
        print(f"round {number}")
        with (
            TemporaryDirectory() as scratch,
            embedded.start(extension_dir=ROOT, settings=SETTINGS) as primary,
            primary.standby() as standby,
        ):
            replicate(primary)
            dsn = (
                f"host=127.0.0.1,127.0.0.1 port={primary.port},{standby.port} user=postgres"
                f" password={primary.password} dbname=postgres target_session_attrs=read-write"
            )
            with Chaos(primary, dsn, Path(scratch), number) as chaos:
                fail_over(report, chaos, standby, Mail(dsn))


def replicate(primary: embedded.Server) -> None:
    """Install pgq and its tables, then let commits wait for the standby."""
    with psycopg.connect(primary.dsn(), autocommit=True) as conn:
        install_plain(conn)
        conn.execute(TABLES)
        conn.execute("select pgq.create_queue('mail')")
        conn.execute("alter system set synchronous_standby_names = 'standby'")
        conn.execute("select pg_reload_conf()")
        query = "select from pg_stat_replication where sync_state = 'sync'"
        wait_for(lambda: conn.execute(query).fetchone() is not None, "a synchronous standby")


def fail_over(report: Report, chaos: Chaos, standby: embedded.Server, mail: Mail) -> None:
    chaos.start_workers("publish", "consume", "read")
    publisher = threading.Thread(target=mail.publish)
    publisher.start()
    try:
        with pgq.connect(mail.dsn) as client, pgq.Consumer(client, "mail", mail.handle):
            wait_for(lambda: chaos.sent() > 5000 and len(mail.received) > 50, "work before")
            chaos.server.kill()
            standby.promote()
            chaos.server = standby
            work, letters = chaos.sent(), len(mail.received)
            wait_for(
                lambda: chaos.sent() > work + 5000 and len(mail.received) > letters + 50,
                "work after",
            )
            mail.stopping.set()
            publisher.join()
            wait_for(lambda: mail.sent <= mail.received, "all letters")
        chaos.watch_workers()
    finally:
        mail.stopping.set()
        publisher.join()
    report.check("a consumer found the new server by itself", "")
    print(f"{len(mail.sent)} letters, {chaos.sent()} messages")
    chaos.end_workers(signal.SIGKILL)
    chaos.conclude(report)
