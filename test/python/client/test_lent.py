"""Clients on connections that SQLAlchemy and asyncpg have lent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import asyncpg
import psycopg
import pytest
import pytest_asyncio
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import pgq
from harness.server import Server
from pgq import F, migrations


@pytest.fixture
def words(db: psycopg.Connection) -> dict[str, Any]:
    """How drivers other than psycopg find the test's database."""
    info = db.info
    found = {"host": info.host, "port": info.port, "user": info.user, "database": info.dbname}
    return found | ({"password": info.password} if info.password else {})


@pytest.fixture(params=["connection", "session"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_client_works_in_the_transaction_of_sqlalchemy(
    dsn: str, db: psycopg.Connection, kind: str
) -> None:
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool
    )
    with engine.connect() if kind == "connection" else Session(engine) as lent:
        client = pgq.Client(lent)
        client.create_queue("orders")
        client.publish("orders", "lost")
        lent.rollback()
        client.create_queue("orders")
        client.publish("orders", {"order": 1}, headers={"type": "paid"})
        client.publish_many(pgq.Draft(topic="orders", payload=n) for n in range(3))
        assert db.execute("select count(*) from pgq.message").fetchone() == (0,)
        lent.commit()
        [message] = client.claim("orders", F.type == "paid")
        assert (message.payload, message.headers) == ({"order": 1}, {"type": "paid"})
        client.ack(message.lease_id)
        lent.commit()
        assert client.queue_stats()[0]["ready"] == 3
        with pytest.raises(pgq.LeaseLost):
            client.ack(message.lease_id)
    engine.dispose()


@pytest_asyncio.fixture(
    params=[
        "asyncpg",
        "asyncpg with codecs",
        "connection",
        "session",
        "connection on psycopg",
        "session on psycopg",
    ]
)
async def lent(
    request: pytest.FixtureRequest, dsn: str, words: dict[str, Any]
) -> AsyncIterator[tuple[Any, Any]]:
    """What is lent, and how its transactions begin and are committed."""
    if request.param.startswith("asyncpg"):
        conn = await asyncpg.connect(**words)
        if "codecs" in request.param:
            await conn.set_type_codec(
                "jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )
        transactions = [conn.transaction()]
        await transactions[0].start()

        async def end(how: str) -> None:
            await getattr(transactions.pop(), how)()
            transactions.append(conn.transaction())
            await transactions[0].start()

        yield conn, end
        await transactions[0].rollback()
        await conn.close()
        return
    if "psycopg" in request.param:
        options: dict[str, Any] = {"async_creator": lambda: psycopg.AsyncConnection.connect(dsn)}
        engine = create_async_engine("postgresql+psycopg://", poolclass=NullPool, **options)
    else:
        options = {"async_creator": lambda: asyncpg.connect(**words)}
        engine = create_async_engine("postgresql+asyncpg://", poolclass=NullPool, **options)
    async with engine.connect() if "connection" in request.param else AsyncSession(engine) as made:

        async def end(how: str) -> None:
            await getattr(made, how)()

        yield made, end
    await engine.dispose()


async def test_a_client_for_asyncio_works_in_the_transaction_of_others(
    lent: tuple[Any, Any], db: psycopg.Connection
) -> None:
    conn, end = lent
    client = pgq.AsyncClient(conn)
    assert await client.create_queue("orders")
    await client.publish("orders", "lost")
    await end("rollback")
    await client.create_queue("orders", lease="1m")
    first = await client.publish("orders", {"order": 1}, headers={"type": "paid"}, delay="0s")
    await client.publish_batch("orders", ["text", None, [1, {"a": 2}]], priority=-1)
    assert db.execute("select count(*) from pgq.message").fetchone() == (0,)
    await end("commit")
    [message] = await client.claim("orders", F.type == "paid")
    assert (message.id, message.attempt, message.payload) == (first, 1, {"order": 1})
    assert message.headers == {"type": "paid"}
    assert isinstance(message.published_at, datetime)
    await client.extend(message.lease_id, "5m")
    assert await client.ack(message.lease_id, [first]) == 1
    rest = await client.claim("orders", n=10)
    assert [m.payload for m in rest] == ["text", None, [1, {"a": 2}]]
    await client.nack(rest[0].lease_id, error="not now", delay="1h")
    await end("commit")
    [stats] = await client.queue_stats()
    assert (stats["queue"], stats["scheduled"]) == ("orders", 3)
    with pytest.raises(pgq.LeaseLost, match="is lost"):
        await client.ack(message.lease_id)
    await end("rollback")
    with pytest.raises(pgq.NoQueue):
        await client.publish("elsewhere", 1)
    await end("rollback")


async def test_copy_needs_psycopg(words: dict[str, Any]) -> None:
    conn = await asyncpg.connect(**words)
    client = pgq.AsyncClient(conn)
    await client.create_queue("orders")
    with pytest.raises(NotImplementedError, match="publish_batch"):
        await client.publish_many([pgq.Draft(topic="orders", payload=1)])
    await conn.close()


def test_the_script_for_alembic_is_the_script(server: Server) -> None:
    found = []
    address = server.create_database("pgq_text")
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(address), poolclass=NullPool
    )
    for statement in (migrations.text(), None):
        with engine.begin() as conn:
            lower: Any = conn.connection.driver_connection
            lower.execute("drop schema if exists pgq cascade")
            if statement is None:
                lower.execute(migrations.script())
            else:
                conn.execute(statement)
            sources = lower.execute(
                "select oid::regprocedure::text, prosrc from pg_proc"
                " where pronamespace = 'pgq'::regnamespace order by 1"
            )
            found.append(sources.fetchall())
    engine.dispose()
    server.drop_database("pgq_text")
    assert len(found[0]) > 100
    assert found[0] == found[1]


def test_what_cannot_run_statements_is_refused(dsn: str) -> None:
    with pytest.raises(TypeError, match="SQLAlchemy"):
        pgq.Client(dsn)
