"""Behind a pooler that gives each transaction another session."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

import pgq
from harness import debian
from harness.server import embedded_server
from pgq import Message

CONFIG = """
[databases]
postgres = host=127.0.0.1 port={server} user=postgres password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
ignore_startup_parameters = extra_float_digits
"""


@pytest.fixture
def pooled() -> Iterator[str]:
    """The connection string of a database behind pgbouncer in transaction mode."""
    tree = debian.unpack("pgbouncer", "pgbouncer", "libc-ares2", "libevent-2.1-7")
    libraries = ":".join(str(path) for path in tree.glob("usr/lib/*-linux-gnu*"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with TemporaryDirectory() as directory, embedded_server() as server:
        scratch = Path(directory)
        scratch.chmod(0o755)
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
        # As root it runs as nobody, who has to read this.
        config = scratch / "pgbouncer.ini"
        config.write_text(CONFIG.format(server=server.port, password=server.password, port=port))
        bouncer = subprocess.Popen(
            [tree / "usr/sbin/pgbouncer", "-q", config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"LD_LIBRARY_PATH": libraries},
            user="nobody" if os.geteuid() == 0 else None,
        )
        dsn = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
        try:
            for _ in range(200):
                try:
                    psycopg.connect(dsn).close()
                    break
                except psycopg.OperationalError:
                    time.sleep(0.05)
            yield dsn
        finally:
            bouncer.terminate()
            bouncer.wait()


def test_a_consumer_behind_such_a_pooler_polls_and_says_so(
    pooled: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    def handle(message: Message) -> None:
        seen.append(message.payload)

    # Prepared statements belong to a session, too.
    with pgq.connect(pooled, prepare_threshold=None) as client:
        client.create_queue("orders")
        client.publish("orders", 0)
        options = pgq.ConsumerConfig(poll_interval=timedelta(milliseconds=100))
        with pgq.Consumer(client, "orders", handle, options):
            deadline = time.monotonic() + 20
            while not client.listener.impossible and time.monotonic() < deadline:
                time.sleep(0.05)
            assert client.listener.impossible
            for number in range(1, 10):
                client.publish("orders", number)
            while len(seen) < 10 and time.monotonic() < deadline:
                time.sleep(0.05)
    assert seen == list(range(10))
    assert "polling instead" in caplog.text
