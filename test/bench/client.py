"""Consuming with the Python client, compared with a bare loop that calls the same functions."""

from __future__ import annotations

import asyncio
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import psycopg

import pgq
from bench.cluster import Bench, Session
from bench.measure import alternate
from bench.report import Section, number
from bench.systems import payload

BATCHES = (1, 10, 100)
LIMIT = 1.3
PUBLISH = """
insert into pgq.message (topic, headers, payload)
select 'orders', '{"type": "order"}', %s::jsonb from generate_series(1, %s)
"""
CLAIM = "select * from pgq.claim(%s, n => %s, done => %s)"


@dataclass(frozen=True)
class Cost:
    """Microseconds per message: CPU of this process, and elapsed."""

    cpu: float
    clock: float


def run(bench: Bench, section: Section) -> None:
    section.say(
        "Messages are claimed, read and acknowledged. The columns are client CPU in "
        "microseconds per message, its ratio to the bare psycopg loop, and elapsed microseconds "
        "per message. asyncio is compared with a bare asyncio loop. "
        '"Loop" is `client.consume`, and "handler" is a `Consumer` with a handler function. '
        'These two and the bare loop acknowledge a batch with the next claim. "Claim" '
        "acknowledges with a separate call."
    )
    rows = []
    for batch in BATCHES:
        count = bench.pick(20, 100) * 10 * batch if batch < 100 else bench.pick(4000, 40_000)
        with bench.database() as dsn:
            results = alternate(
                bench.pick(3, 7),
                {name: partial(measure, dsn, count, batch, CONSUMERS[name]) for name in CONSUMERS},
            )
        costs = {name: statistics.median(cost.cpu for cost in all) for name, all in results.items()}
        for name, all in results.items():
            bare = "psycopg, asyncio" if name.endswith("asyncio") else "psycopg"
            ratio = costs[name] / costs[bare]
            clock = statistics.median(cost.clock for cost in all)
            rows.append([f"{name}, by {batch}", number(costs[name]), number(ratio), number(clock)])
            if name in PROMISED:
                what = f"client CPU of a {name} against bare psycopg, claiming by {batch}"
                section.at_most(what, ratio, LIMIT)
                section.guard(f"a {name} costs less than twice bare psycopg", ratio < 2)
    section.table(["consumer", "client CPU", "ratio", "time"], rows)


class Watch:
    """Measures from the moment when a consumer has connected."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._clock, self._cpu = time.perf_counter(), used()

    def cost(self, count: int) -> Cost:
        cpu, clock = used() - self._cpu, time.perf_counter() - self._clock
        return Cost(cpu / count * 1e6, clock / count * 1e6)


def measure(dsn: str, count: int, batch: int, consume: Callable[[str, int, Watch], int]) -> Cost:
    with Session(dsn) as session:
        session.execute("select pgq.create_queue('orders')")
        session.execute(PUBLISH, payload(0), count)
        watch = Watch()
        done = consume(dsn, batch, watch)
        cost = watch.cost(count)
        session.execute("select pgq.drop_queue('orders')")
    if done != count:
        raise AssertionError(f"{done} of {count} messages arrived")
    return cost


def used() -> float:
    """Return the CPU time of this process with all its threads, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def bare(dsn: str, batch: int, watch: Watch) -> int:
    done, before = 0, None
    with psycopg.connect(dsn, autocommit=True) as conn:
        watch.start()
        while rows := conn.execute(CLAIM, ("orders", batch, before)).fetchall():
            for row in rows:
                done += bool(row[6])
            before = rows[0][0]
    return done


def claim(dsn: str, batch: int, watch: Watch) -> int:
    done = 0
    with pgq.connect(dsn) as client:
        watch.start()
        while True:
            with client.claim("orders", n=batch) as messages:
                if not messages:
                    return done
                for message in messages:
                    done += bool(message.payload)


def loop(dsn: str, batch: int, watch: Watch) -> int:
    done = 0
    with pgq.connect(dsn) as client:
        watch.start()
        for message in client.consume("orders", batch_size=batch, drain=True):
            done += bool(message.payload)
    return done


def handler(dsn: str, batch: int, watch: Watch) -> int:
    done = 0

    def handle(message: pgq.Message) -> None:
        nonlocal done
        done += bool(message.payload)

    with pgq.connect(dsn) as client:
        watch.start()
        pgq.Consumer(client, "orders", handle, batch_size=batch, drain=True).run()
    return done


def bare_async(dsn: str, batch: int, watch: Watch) -> int:
    done = 0

    async def consume() -> None:
        nonlocal done
        before = None
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            watch.start()
            while True:
                cursor = await conn.execute(CLAIM, ("orders", batch, before))
                rows = await cursor.fetchall()
                if not rows:
                    return
                for row in rows:
                    done += bool(row[6])
                before = rows[0][0]

    asyncio.run(consume())
    return done


def loop_async(dsn: str, batch: int, watch: Watch) -> int:
    done = 0

    async def consume() -> None:
        nonlocal done
        async with await pgq.connect_async(dsn) as client:
            watch.start()
            async for message in client.consume("orders", batch_size=batch, drain=True):
                done += bool(message.payload)

    asyncio.run(consume())
    return done


def handler_async(dsn: str, batch: int, watch: Watch) -> int:
    done = 0

    async def handle(message: pgq.Message) -> None:
        nonlocal done
        done += bool(message.payload)

    async def consume() -> None:
        async with await pgq.connect_async(dsn) as client:
            watch.start()
            await pgq.AsyncConsumer(client, "orders", handle, batch_size=batch, drain=True).run()

    asyncio.run(consume())
    return done


CONSUMERS: dict[str, Callable[[str, int, Watch], int]] = {
    "psycopg": bare,
    "claim": claim,
    "loop": loop,
    "handler": handler,
    "psycopg, asyncio": bare_async,
    "loop, asyncio": loop_async,
    "handler, asyncio": handler_async,
}
PROMISED = ("loop", "handler", "loop, asyncio", "handler, asyncio")
