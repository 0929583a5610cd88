"""pgbouncer in transaction mode before a server: each transaction gets another session."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from harness import debian
from harness.server import Server
from pgq import embedded

# The pooler queries passwords of other roles on the server, so that tests can create roles.
CONFIG = """
[databases]
* = host={host} port={port} auth_user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
max_client_conn = 500
default_pool_size = {size}
server_connect_timeout = 5
server_login_retry = 1
logfile = {log}
"""


class PooledServer:
    """A server whose databases are reached through a pooler, apart from making and dropping them.

    :param address: how the pooler is reached.
    """

    def __init__(self, server: Server, address: str) -> None:
        self._server = server
        self._address = address

    def dsn(self, dbname: str = "postgres") -> str:
        return make_conninfo(self._address, dbname=dbname)

    def environment(self, dbname: str = "postgres") -> dict[str, str]:
        parameters = conninfo_to_dict(self._address)
        return self._server.environment(dbname) | {
            "PGHOST": str(parameters["host"]),
            "PGPORT": str(parameters["port"]),
            "PGUSER": str(parameters["user"]),
            "PGPASSWORD": str(parameters["password"]),
        }

    def program(self, name: str) -> Path:
        return self._server.program(name)

    def create_database(self, name: str, *, template: str = "template1") -> str:
        with psycopg.connect(self._server.dsn(), autocommit=True) as conn:
            # Open sessions of the pooler prevent copying a database.
            query = "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            conn.execute(f"{query} where datname = %s", [template])
        self._server.create_database(name, template=template)
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        self._server.drop_database(name)


@contextmanager
def pooled(server: Server, size: int = 10) -> Iterator[PooledServer]:
    """Run a pooler in front of the server, with so many sessions for each database and role."""
    # The socket of an embedded server is for one user only.
    direct = server.dsn(tcp=True) if isinstance(server, embedded.Server) else server.dsn()
    parameters = conninfo_to_dict(direct)
    tree = debian.unpack("pgbouncer", "pgbouncer", "libc-ares2", "libevent-2.1-7")
    libraries = ":".join(str(path) for path in tree.glob("usr/lib/*-linux-gnu*"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    with TemporaryDirectory() as directory:
        scratch = Path(directory)
        users, config, log = (scratch / name for name in ("users", "config", "log"))
        users.write_text('"{user}" "{password}"\n'.format_map(parameters))
        config.write_text(
            CONFIG.format(
                host=parameters.get("host", "127.0.0.1"),
                port=parameters.get("port", 5432),
                user=parameters["user"],
                own=own,
                users=users,
                size=size,
                log=log,
            )
        )
        # pgbouncer refuses to run as root; the user nobody must be able to read these files.
        for path in (scratch, users, config):
            path.chmod(0o755)
        log.touch(0o666)
        log.chmod(0o666)
        bouncer = subprocess.Popen(
            [tree / "usr/sbin/pgbouncer", "-q", config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"LD_LIBRARY_PATH": libraries},
            user="nobody" if os.geteuid() == 0 else None,
        )
        address = make_conninfo(direct, host="127.0.0.1", port=own)
        try:
            _await(address, bouncer, log)
            yield PooledServer(server, address)
        finally:
            bouncer.terminate()
            bouncer.wait()


def _await(address: str, bouncer: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(address, connect_timeout=5).close()
            return
        except psycopg.OperationalError as error:
            if bouncer.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"pgbouncer does not answer: {log.read_text()}") from error
            time.sleep(0.05)
