"""Fixtures for every test written in Python: a server, and a fresh database for each test."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import psycopg
import pytest
import pytest_asyncio

import pgq
from harness import backend, command, pooler
from harness.install import check_invariants, install
from harness.server import Server

Connect = Callable[..., psycopg.Connection]

pytest_plugins = ["pgq.testing.pytest_plugin"]

# Rewrite its assertions, as those of tests.
pytest.register_assert_rewrite("model")

# Whether a pooler is between the tests and the server: each transaction has another session.
POOLED = bool(os.environ.get("PGQ_TEST_POOLER"))

_numbers = count(1)

# A shell makes background processes ignore SIGINT, which tests send to children.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that cannot run behind a pooler, each with its reason."""
    for item in items if POOLED else []:
        if (mark := item.get_closest_marker("unpooled")) is not None:
            item.add_marker(pytest.mark.skip(reason=mark.args[0]))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server that PGQ_TEST_DSN or PGQ_TEST_BACKEND names, else the first available one."""
    with backend.choose() as chosen:
        if POOLED:
            with pooler.pooled(chosen) as between:
                yield between
        else:
            yield chosen


@pytest.fixture(scope="session")
def template(server: Server) -> Iterator[str]:
    """The name of a database with pgq, from which each test's database is copied."""
    name = f"pgq_pytest_{os.getpid()}"
    server.drop_database(name)
    with psycopg.connect(server.create_database(name), autocommit=True) as conn:
        install(conn)
    yield name
    server.drop_database(name)


@pytest.fixture
def dsn(server: Server, template: str) -> Iterator[str]:
    """The connection string of a fresh database with pgq; its state is checked after the test."""
    name = f"{template}_{next(_numbers)}"
    address = server.create_database(name, template=template)
    yield address
    try:
        with psycopg.connect(address, autocommit=True) as conn:
            assert check_invariants(conn) == []
    finally:
        server.drop_database(name)


@pytest.fixture
def connect(dsn: str) -> Iterator[Connect]:
    """A function that opens one more connection to the test's database."""
    opened: list[psycopg.Connection] = []

    def connect(**options: Any) -> psycopg.Connection:
        usual = {"autocommit": True, "prepare_threshold": None if POOLED else 5}
        conn = psycopg.connect(dsn, **usual | options)
        opened.append(conn)
        return conn

    yield connect
    for conn in opened:
        conn.close()


@pytest.fixture
def db(connect: Connect) -> psycopg.Connection:
    """An autocommit connection to the test's database."""
    return connect()


@pytest.fixture
def client(dsn: str) -> Iterator[pgq.PooledClient]:
    """A client with its own connections to the test's database."""
    with pgq.connect(dsn) as client:
        yield client


@pytest_asyncio.fixture
async def async_client(dsn: str) -> AsyncIterator[pgq.AsyncPooledClient]:
    """The same for asyncio."""
    async with await pgq.connect_async(dsn) as client:
        yield client


@pytest.fixture(scope="session")
def filter_client(server: Server, template: str) -> Iterator[pgq.PooledClient]:
    """A client for tests that only read."""
    name = f"{template}_filters"
    with pgq.connect(server.create_database(name, template=template)) as client:
        yield client
    server.drop_database(name)


@pytest.fixture
def pgq_run(
    dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> command.Command:
    """Runs a command on the test's database, in this process."""
    monkeypatch.setenv("PGQ_DSN", dsn)
    return partial(command.here, capsys)


@pytest.fixture
def pgq_process(dsn: str) -> command.Command:
    """Runs a command on the test's database in its own process, with input on stdin."""
    return partial(command.in_process, dsn)
