"""pgmq's own Python client, unchanged, on the schema that pgq_pgmq serves."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import psycopg
import pytest
from pgmq import AsyncPGMQueue, PGMQueue, SQLAlchemyAsyncPGMQueue, SQLAlchemyPGMQueue
from pgmq.notify_listener import SyncNotificationListener
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from harness.install import install_pgmq

Call = Callable[..., Any]

# What concerns the client itself, not the server.
OWN = {"close", "init", "transaction", "config", "logger", "pool", "session", "dispose"}


@pytest.fixture
def served(dsn: str, db: psycopg.Connection) -> dict[str, Any]:
    """The arguments of a client of pgmq for a database that has pgq_pgmq."""
    install_pgmq(db)
    info = db.info
    return {
        "host": info.host,
        "port": str(info.port),
        "database": info.dbname,
        "username": info.user,
        "password": info.password or "unused",
        "init_extension": False,
    }


class Recorded:
    """Calls methods of a client by name, and remembers which."""

    def __init__(self, client: Any, run: Callable[[Any], Any]) -> None:
        self.client = client
        self.run = run
        self.called: set[str] = set()

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        self.called.add(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.run(getattr(self.client, name)(*args, **kwargs))

    @property
    def missed(self) -> set[str]:
        methods = inspect.getmembers(self.client, callable)
        return {name for name, _ in methods if name[0] != "_"} - self.called - OWN


@pytest.fixture(params=["psycopg", "asyncpg", "SQLAlchemy", "SQLAlchemy on asyncpg"])
def call(request: pytest.FixtureRequest, served: dict[str, Any], dsn: str) -> Iterator[Recorded]:
    # Use our own pools and engines: the client's connection string does not support sockets.
    if request.param == "psycopg":
        client = PGMQueue(**served)
        yield Recorded(client, lambda result: result)
        client.close()
    elif request.param == "SQLAlchemy":
        engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
        other = SQLAlchemyPGMQueue(engine=engine, **served)
        yield Recorded(other, lambda result: result)
        other.dispose()
    else:
        with asyncio.Runner() as runner:
            queue: Any
            if request.param == "asyncpg":
                pool = asyncpg.create_pool(min_size=1, **words(served))
                runner.run(opened(pool))
                queue = AsyncPGMQueue(pool=pool, **served)
            else:
                connect = partial(asyncpg.connect, **words(served))
                lent = create_async_engine("postgresql+asyncpg://", async_creator=connect)
                queue = SQLAlchemyAsyncPGMQueue(engine=lent, **served)
            runner.run(queue.init())
            yield Recorded(queue, runner.run)
            runner.run(queue.close())
            if request.param == "asyncpg":
                runner.run(pool.close())


async def opened(pool: Any) -> None:
    await pool


def words(served: dict[str, Any]) -> dict[str, Any]:
    """How asyncpg finds the database."""
    return {
        "host": served["host"],
        "port": int(served["port"]),
        "database": served["database"],
        "user": served["username"],
        "password": served["password"],
        "statement_cache_size": 0,
    }


def test_every_method_of_the_client_of_pgmq_works(call: Recorded) -> None:
    call("create_queue", "orders")
    call("create_queue", "fast", unlogged=True)
    call("create_partitioned_queue", "wide", 100, 1000)
    assert call("validate_queue_name", "orders")
    listed = {queue.queue_name: queue for queue in call("list_queues")}
    assert listed.keys() == {"orders", "fast", "wide"}
    assert listed["fast"].is_unlogged
    assert listed["wide"].is_partitioned

    first = call("send", "orders", {"n": 1})
    call("send", "orders", {"n": 2}, headers={"type": "paid"}, delay=3600)
    call("send", "orders", {"n": 3}, delay=datetime.now(UTC) + timedelta(hours=1))
    many = call("send_batch", "orders", [{"n": 4}, {"n": 5}], headers=[{"h": 1}, {"h": 2}])
    message = call("read", "orders", vt=30)
    assert (message.msg_id, message.read_ct, message.message) == (first, 1, {"n": 1})
    assert message.last_read_at < message.vt
    assert [m.headers for m in call("read_batch", "orders", vt=30, batch_size=5)] == [
        {"h": 1},
        {"h": 2},
    ]
    changed = call("set_vt", "orders", first, 0)
    assert (changed.msg_id, changed.read_ct) == (first, 1)
    assert call("read", "orders", conditional={"n": 1}, qty=2)[0].read_ct == 2
    assert call("delete", "orders", first) is True
    assert call("delete", "orders", first) is False
    assert call("archive", "orders", many[0]) is True
    assert call("archive_batch", "orders", [*many, -1]) == [many[1]]
    assert call("purge", "orders") == 2
    three = call("send_batch", "orders", [{"n": 1}] * 3)
    assert call("delete_batch", "orders", three[:1]) == three[:1]
    assert call("pop", "orders").msg_id == three[1]
    polled = call("read_with_poll", "orders", vt=1, qty=5, max_poll_seconds=1)
    assert [m.msg_id for m in polled] == three[2:]
    metrics = call("metrics", "orders")
    assert (metrics.queue_name, metrics.queue_length, metrics.total_messages) == ("orders", 1, 8)
    assert len(call("metrics_all")) == 3

    call("create_fifo_index", "wide")
    call("create_fifo_indexes_all")
    groups = [{"x-pgmq-group": name} for name in "aab"]
    call("send_batch", "wide", [{"n": n} for n in range(3)], headers=groups)
    read = [call(f"read_grouped{kind}", "wide", vt=60, qty=1) for kind in ("", "_rr")]
    assert [messages[0].message["n"] for messages in read] == [0, 2]
    assert call("read_grouped_with_poll", "wide", max_poll_seconds=0) == []
    assert call("read_grouped_rr_with_poll", "wide", max_poll_seconds=0) == []

    assert call("validate_routing_key", "logs.error")
    assert call("validate_topic_pattern", "logs.*")
    call("bind_topic", "logs.*", "fast")
    assert [b.queue_name for b in call("list_topic_bindings")] == ["fast"]
    assert [r.pattern for r in call("test_routing", "logs.error")] == ["logs.*"]
    assert call("send_topic", "logs.error", {"n": 1}, headers={"a": 1}) == 1
    sent = call("send_batch_topic", "logs.error", [{"n": 2}], delay=5)
    assert [row.queue_name for row in sent] == ["fast"]
    assert call("unbind_topic", "logs.*", "fast") is True

    call("enable_notify", "fast", 0)
    call("update_notify", "fast", 100)
    assert [t.throttle_interval_ms for t in call("list_notify_throttles")] == [100]
    call("disable_notify", "fast")
    call("convert_archive_partitioned", "orders")
    call("detach_archive", "orders")
    assert call("drop_queue", "wide") is True
    assert call("drop_queue", "wide") is False
    assert not call.missed


def test_a_message_of_pgmq_is_a_message_of_pgq(
    served: dict[str, Any], db: psycopg.Connection
) -> None:
    client = PGMQueue(**served)
    client.create_queue("orders")
    client.send("orders", {"order": 1}, headers={"type": "paid"})
    claimed = db.execute("""select payload from pgq.claim('orders', '{"type": "paid"}')""")
    assert claimed.fetchone() == ({"order": 1},)
    db.execute("select pgq.publish('orders', '2')")
    assert client.pop("orders").message == 2  # type: ignore[union-attr]
    client.close()


@pytest.mark.unpooled("a listener needs a session of its own")
def test_a_listener_of_pgmq_hears_senders(served: dict[str, Any]) -> None:
    client = PGMQueue(**served)
    client.create_queue("orders")
    client.enable_notify("orders", 0)
    listener = SyncNotificationListener(client)
    with psycopg.connect(listener.dsn, autocommit=True) as conn:
        conn.execute('listen "pgmq.q_orders.INSERT"')
        client.send("orders", {"order": 1})
        heard = [note.channel for note in conn.notifies(timeout=10, stop_after=1)]
    assert heard == ["pgmq.q_orders.INSERT"]
    client.close()
