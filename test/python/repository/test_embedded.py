"""The embedded server: it starts everywhere, survives crashes, and leaves no files behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgq import __version__, embedded


@pytest.fixture(scope="module")
def shared() -> Iterator[embedded.Server]:
    with embedded.start(durable=False) as server:
        yield server


def scalar(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pid: int, root: Path) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not is_alive(pid) and not root.exists():
            return True
        time.sleep(0.05)
    return False


def test_the_extension_can_be_created(shared: embedded.Server) -> None:
    query = "select default_version from pg_available_extensions where name = 'pgq'"
    assert scalar(shared.dsn(), query) == __version__


def test_the_server_is_reached_by_socket_and_by_tcp(shared: embedded.Server) -> None:
    query = "select inet_server_addr() is null"
    assert scalar(shared.dsn(), query) is True
    assert scalar(shared.dsn(tcp=True), query) is False


def test_tcp_needs_the_password(shared: embedded.Server) -> None:
    dsn = shared.dsn(tcp=True).replace(shared.password, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(dsn)


def test_a_database_is_made_and_dropped(shared: embedded.Server) -> None:
    shared.create_database('odd "name"')
    exists = "select count(*) from pg_database where datname = 'odd \"name\"'"
    assert scalar(shared.dsn(), exists) == 1
    shared.drop_database('odd "name"')
    assert scalar(shared.dsn(), exists) == 0


def test_settings_are_respected_and_can_change() -> None:
    settings: dict[str, embedded.Setting] = {"work_mem": "7MB", "jit": False, "search_path": "it's"}
    with embedded.start(settings=settings) as server:
        assert scalar(server.dsn(), "show work_mem") == "7MB"
        assert scalar(server.dsn(), "show jit") == "off"
        assert scalar(server.dsn(), "show fsync") == "on"
        port = server.port
        server.restart(settings={"work_mem": "9MB", "search_path": "public"})
        assert scalar(server.dsn(), "show work_mem") == "9MB"
        assert server.port == port


@pytest.mark.parametrize("end", ["stop", "immediate", "kill"])
def test_committed_data_survives(end: str) -> None:
    with embedded.start() as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create table t as select 42 as n")
        pid = server.pid
        if end == "kill":
            server.kill()
        else:
            server.stop("immediate" if end == "immediate" else "fast")
        assert not server.running
        assert not is_alive(pid)
        server.start()
        assert scalar(server.dsn(), "select n from t") == 42


def test_nothing_is_left_after_an_error() -> None:
    server = embedded.start(durable=False)
    pid = server.pid

    def fail() -> None:
        with server:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not is_alive(pid)
    assert not server.root.exists()


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(embedded.EmbeddedError, match="no_such_setting"):
        embedded.start(settings={"no_such_setting": "1"})


def test_a_directory_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(embedded.EmbeddedError, match="no PostgreSQL server"):
        embedded.start(tmp_path)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes by /proc")
def test_the_server_dies_with_a_parent_that_is_killed() -> None:
    program = (
        "import time, pgq.embedded as e; s = e.start(durable=False);"
        "print(s.pid, s.root, flush=True); time.sleep(100)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with parent:
        assert parent.stdout is not None
        pid, root = parent.stdout.readline().split()
        assert is_alive(int(pid))
        parent.send_signal(signal.SIGKILL)
    assert wait_until_gone(int(pid), Path(root))


def test_a_server_may_be_started_in_a_thread_that_ends() -> None:
    from threading import Thread

    servers: list[embedded.Server] = []
    thread = Thread(target=lambda: servers.append(embedded.start(durable=False)))
    thread.start()
    thread.join()
    with servers[0] as server:
        time.sleep(0.2)
        assert scalar(server.dsn(), "select 1") == 1


@pytest.mark.parametrize("bin_dir", embedded.find_binaries(), ids=str)
def test_every_server_at_hand_has_the_extension(bin_dir: Path) -> None:
    with embedded.start(bin_dir, durable=False) as server:
        query = "select default_version from pg_available_extensions where name = 'pgq'"
        assert scalar(server.dsn(), query) == __version__


def test_the_pytest_fixtures_give_each_test_a_database(pgq_database: str) -> None:
    assert scalar(pgq_database, "select extversion from pg_extension where extname = 'pgq'")
