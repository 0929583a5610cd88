"""A relay to Redis Streams, beside a bare loop that claims and adds with pipelines."""

from __future__ import annotations

import json
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import redis

import pgq
from bench.client import PUBLISH
from bench.cluster import Bench, Session
from bench.measure import alternate
from bench.report import Section, number
from bench.systems import payload
from harness.redis_server import RedisServer
from pgq.relay import Relay, open_destination

BATCH = 500
LIMIT = 0.7


@dataclass(frozen=True)
class Pace:
    """Microseconds per message: CPU of this process, and elapsed."""

    cpu: float
    clock: float


def run(bench: Bench, section: Section) -> None:
    section.say(
        f"Messages of a queue are added to a stream of a Redis server on the same machine, {BATCH} "
        "at a time. Client CPU and elapsed time are in microseconds per message. The bare loop "
        "claims, adds with a pipeline and acknowledges. It adds duplicates after a crash. The "
        "target for the relay is 70 % of the rate of the bare loop."
    )
    count = bench.pick(5000, 50_000)
    with TemporaryDirectory() as directory, RedisServer(Path(directory), durable=False) as server:
        contestants = {
            name: partial(measure, bench, server, count, forward)
            for name, forward in (("bare loop", bare), ("relay", relay))
        }
        alternate(1, contestants)
        found = alternate(bench.pick(3, 7), contestants)
    clock = {name: statistics.median(pace.clock for pace in all) for name, all in found.items()}
    cpu = {name: statistics.median(pace.cpu for pace in all) for name, all in found.items()}
    rate = clock["bare loop"] / clock["relay"]
    section.at_least("rate of a relay to Redis Streams against a bare loop", rate, LIMIT)
    section.guard("a relay has half the rate of a bare loop", rate > 0.5)
    section.table(
        ["", "client CPU", "time", "messages/s", "rate"],
        [
            [
                name,
                number(cpu[name]),
                number(clock[name]),
                number(1e6 / clock[name]),
                number(clock["bare loop"] / clock[name]),
            ]
            for name in contestants
        ],
    )


def measure(
    bench: Bench, server: RedisServer, count: int, forward: Callable[[str, str], None]
) -> Pace:
    with bench.database() as dsn, redis.Redis.from_url(server.url) as store:
        store.flushall()
        with Session(dsn) as session:
            session.execute("select pgq.create_queue('orders')")
            session.execute(PUBLISH, payload(0), count)
        began, used = time.perf_counter(), cpu_seconds()
        forward(dsn, server.url)
        pace = Pace(
            (cpu_seconds() - used) / count * 1e6, (time.perf_counter() - began) / count * 1e6
        )
        if store.xlen("orders") != count:
            raise AssertionError(f"{store.xlen('orders')} of {count} messages arrived")
    return pace


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def bare(dsn: str, url: str) -> None:
    query = "select * from pgq.claim(%s, n => %s)"
    with psycopg.connect(dsn, autocommit=True) as conn, redis.Redis.from_url(url) as store:
        while rows := conn.execute(query, ("orders", BATCH)).fetchall():
            pipeline = store.pipeline(transaction=False)
            for row in rows:
                message = {"id": row[1], "topic": row[2], "headers": row[5], "payload": row[6]}
                pipeline.xadd(
                    "orders", {"id": row[1], "topic": row[2], "message": json.dumps(message)}
                )
            pipeline.execute()
            conn.execute("select pgq.ack(%s)", (rows[0][0],))


def relay(dsn: str, url: str) -> None:
    with pgq.connect(dsn) as client:
        destination = open_destination(url, queue="orders")
        Relay(client, "orders", destination, batch_size=BATCH, drain=True).run(signals=False)
