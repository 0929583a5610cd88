"""The trigger and the provider for Airflow.

Airflow itself has some hundred packages more, so it is not among those of the tests: where it is
missing, stand-ins have the parts of its interfaces that are used here (as of 3.3). Where it is
installed (`make test-airflow`), the same tests run with it, and more.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import psycopg
import pytest

REAL = find_spec("airflow") is not None


@dataclass
class TriggerEvent:
    payload: Any = None


class BaseEventTrigger:
    def __init__(self, **kwargs: Any) -> None:
        assert not kwargs


class Outcome(NamedTuple):
    acked: int
    failed: int
    rejected: int = 0

    @property
    def is_clean(self) -> bool:
        return self.failed == 0 and self.rejected == 0 and self.acked > 0


STAND_INS: dict[str, dict[str, Any]] = {
    "airflow.triggers.base": {"BaseEventTrigger": BaseEventTrigger, "TriggerEvent": TriggerEvent},
    "airflow.triggers.shared_stream": {
        "SharedStreamProducer": type("SharedStreamProducer", (), {})
    },
    "airflow.providers.common.messaging.providers.base_provider": {
        "BaseMessageQueueProvider": type("BaseMessageQueueProvider", (), {"scheme": None})
    },
}


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch, dsn: str, db: psycopg.Connection) -> Any:
    """The modules under test, and a queue with messages for two assets."""
    for name, contents in {} if REAL else STAND_INS.items():
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            part = ".".join(parts[:i])
            if part not in sys.modules:
                monkeypatch.setitem(sys.modules, part, ModuleType(part))
        for attribute, value in contents.items():
            setattr(sys.modules[name], attribute, value)
    for name in ("pgq.airflow.trigger", "pgq.airflow.provider"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setenv("PGQ_DSN", dsn)
    db.execute("select pgq.create_queue('files', lane_keys => '{asset}', backoff => '0')")
    db.execute(
        """
        select pgq.publish('files', to_jsonb(i), jsonb_build_object('asset', a))
        from unnest(array['orders', 'prices', 'orders']) with ordinality u (a, i)
        """
    )
    return SimpleNamespace(
        trigger=import_module("pgq.airflow.trigger"), provider=import_module("pgq.airflow.provider")
    )


def left(db: psycopg.Connection) -> Any:
    """The payloads that are not done, with their state."""
    return db.execute(
        "select string_agg(format('%s %s', m.payload, s.state), ', ' order by m.id)"
        " from pgq.message_state s join pgq.message m on m.id = s.id"
    ).fetchall()[0][0]


@asynccontextmanager
async def opened(producer: Any) -> AsyncIterator[Any]:
    stream = producer.open_stream()
    try:
        yield stream
    finally:
        await stream.aclose()
        await producer.aclose()


async def test_one_queue_serves_many_assets(airflow: Any, db: psycopg.Connection) -> None:
    triggers = [
        airflow.trigger.PgqTrigger(topic="files", filter={"asset": asset}, n=10)
        for asset in ("orders", "prices")
    ]
    assert triggers[0].shared_stream_key() != triggers[1].shared_stream_key()
    for trigger, payloads in zip(triggers, ([1, 3], [2]), strict=True):
        path, arguments = trigger.serialize()
        assert path == "pgq.airflow.trigger.PgqTrigger"
        assert type(trigger)(**arguments).serialize() == (path, arguments)
        producer = type(trigger).create_shared_stream_producer(arguments)
        async with opened(producer) as stream:
            batch, payload = await anext(stream)
            assert [m["payload"] for m in batch["messages"]] == payloads
            assert batch["messages"][0]["headers"] == {"asset": "orders"} or payloads == [2]
            # Nothing is acknowledged before Airflow reports the event.
            assert f"{payloads[0]} leased" in left(db)
            await producer.advance([SimpleNamespace(broker_payload=payload, outcome=Outcome(1, 0))])
    assert left(db) is None


async def test_what_is_not_recorded_comes_again(airflow: Any, db: psycopg.Connection) -> None:
    arguments = airflow.trigger.PgqTrigger(topic="files", n=2).serialize()[1]
    producer = airflow.trigger.PgqTrigger.create_shared_stream_producer(arguments)
    async with opened(producer) as stream:
        [one, other] = [await anext(stream), await anext(stream)]
        assert producer.get_advance_lane(one[1]) != producer.get_advance_lane(other[1])
        items = [
            SimpleNamespace(broker_payload=one[1], outcome=Outcome(1, 1)),
            SimpleNamespace(broker_payload=other[1], outcome=Outcome(0, 0, rejected=1)),
        ]
        await producer.advance(items)
        assert left(db) == "1 ready, 2 ready, 3 dead"
        again, _ = await anext(stream)
        assert [m["attempt"] for m in again["messages"]] == [1, 1]
        # A late acknowledgement changes nothing.
        db.execute("select pgq.release(lease_id) from pgq.leases")
        await producer.advance(items[:1])


async def test_messages_that_come_later_fire_too(airflow: Any, db: psycopg.Connection) -> None:
    db.execute("select pgq.purge('files')")
    trigger = airflow.trigger.PgqTrigger(topic="files", settle=0, poll_interval=60)
    events = trigger.run()
    waiting = asyncio.create_task(anext(events))
    while not db.execute("select from pgq.waiter").fetchall():
        assert not waiting.done()
        await asyncio.sleep(0.01)
    db.execute("select pgq.publish('files', '\"later\"')")
    event = await asyncio.wait_for(waiting, 50)
    assert event.payload["messages"][0]["payload"] == "later"
    following = asyncio.create_task(anext(events))
    while left(db) is not None:
        assert not following.done()
        await asyncio.sleep(0.01)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    await events.aclose()


def test_airflow_finds_the_provider(airflow: Any) -> None:
    info = airflow.provider.get_provider_info()
    [path] = info["queues"]
    module, _, name = path.rpartition(".")
    provider = getattr(import_module(module), name)()
    assert provider.scheme == "pgq"
    assert provider.trigger_class() is airflow.trigger.PgqTrigger


@pytest.mark.skipif(not REAL, reason="needs Airflow")
async def test_the_triggerer_acknowledges_what_is_persisted(
    airflow: Any, db: psycopg.Connection
) -> None:
    manager = import_module("airflow.triggers.shared_stream").SharedStreamManager()
    trigger = airflow.trigger.PgqTrigger(topic="files", filter={"asset": "orders"}, n=10)
    key = trigger.shared_stream_key()
    stream = manager.subscribe(trigger_id=1, trigger=trigger, key=key)
    events = trigger.filter_shared_stream(stream)
    event = await anext(events)
    assert [m["payload"] for m in event.payload["messages"]] == [1, 3]
    number = manager.bind_pending_event(trigger_id=1, key=key)
    following = asyncio.create_task(anext(events))
    await asyncio.sleep(0.5)
    assert left(db) == "1 leased, 2 ready, 3 leased"
    manager.confirm_persisted([number])
    while left(db) != "2 ready":
        await asyncio.sleep(0.05)
    following.cancel()
    await manager.stop_all()
