"""Fixtures for the tests of programs that use pgq: a server, and a database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from pgq.testing import embedded

_TEMPLATE = "pgq_template"
_numbers = count(1)


@pytest.fixture(scope="session")
def pgq_server() -> Iterator[embedded.Server]:
    """An embedded PostgreSQL server for the whole session, fast and not crash-safe."""
    import psycopg

    with embedded.start(durable=False) as server:
        with psycopg.connect(server.create_database(_TEMPLATE), autocommit=True) as conn:
            conn.execute("create extension pgq")
        yield server


@pytest.fixture
def pgq_database(pgq_server: embedded.Server) -> Iterator[str]:
    """The connection string of a fresh database with pgq, dropped after the test."""
    name = f"pgq_{next(_numbers)}"
    yield pgq_server.create_database(name, template=_TEMPLATE)
    pgq_server.drop_database(name)
