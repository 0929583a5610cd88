"""No-op jobs through the Python client, and through other Python queues on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pgq
from bench.cluster import Bench
from bench.measure import alternate
from bench.report import Section, number

LIMIT = 5.0
CHUNK = 1000
QUEUE = "jobs"
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU for a job, of this process and of the whole server."""

    publish: float
    consume: float

    @property
    def whole(self) -> float:
        return self.publish + self.consume


class Meter:
    """Adds up CPU between two moments, of this process and of all processes of the server."""

    def __init__(self, bench: Bench) -> None:
        pid = (bench.server.data / "postmaster.pid").read_text().split()[0]
        self._postmaster = Path("/proc") / pid
        self._last = self._now()

    def lap(self) -> float:
        """Return the CPU since the last call, in seconds."""
        before, self._last = self._last, self._now()
        return self._last - before

    def _now(self) -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        ended, running = self._ended(), self._running()
        while ended != self._ended():  # somebody went from the one account to the other
            ended, running = self._ended(), self._running()
        return usage.ru_utime + usage.ru_stime + ended + running

    def _ended(self) -> float:
        """What has ended is in the account of the postmaster."""
        fields = (self._postmaster / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[13]) + int(fields[14])) / _TICK

    def _running(self) -> float:
        children = (self._postmaster / "task" / self._postmaster.name / "children").read_text()
        return sum(map(_cpu, children.split()))


def _cpu(pid: str) -> float:
    try:
        fields = (Path("/proc") / pid / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:  # it has just ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK


def run(bench: Bench, section: Section) -> None:
    section.say(
        f"Jobs that do nothing, published by {CHUNK:,} and consumed by one process: microseconds "
        "of CPU for each job, of the client and of all processes of the server. The others run on "
        "uvloop; procrastinate deletes finished jobs and does not listen, pgqueuer uses asyncpg "
        "and drains. Each is compared at the best of its settings."
    )
    counts = {
        name: bench.pick(1000, 10_000) if slow else bench.pick(10_000, 50_000)
        for name in SYSTEMS
        for slow in [name.startswith("procrastinate")]
    }
    results = alternate(
        bench.pick(2, 3),
        {name: partial(measure, bench, counts[name], SYSTEMS[name]) for name in SYSTEMS},
    )
    costs = {name: _median(found) for name, found in results.items()}
    ours = min((costs[name] for name in costs if name.startswith("pgq,")), key=_whole)
    rows = []
    for name, cost in costs.items():
        figures = (cost.publish * 1e6, cost.consume * 1e6, 1 / cost.whole, cost.whole / ours.whole)
        rows.append([name, f"{counts[name]:,}", *map(number, figures)])
    section.table(
        [
            *("system", "jobs", "publish CPU", "consume CPU", "jobs per CPU second"),
            "CPU against pgq",
        ],
        rows,
    )
    for peer in ("procrastinate", "pgqueuer"):
        best = min((costs[name] for name in costs if name.startswith(peer)), key=_whole)
        what = f"jobs per CPU second, against {peer} at its best"
        section.at_least(what, best.whole / ours.whole, LIMIT)
        section.guard(f"fewer jobs per CPU second than {peer}", best.whole > ours.whole)


def _whole(cost: Cost) -> float:
    return cost.whole


def _median(costs: list[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.publish for cost in costs),
        statistics.median(cost.consume for cost in costs),
    )


def measure(bench: Bench, count: int, system: Callable[[str, int, Meter], Cost]) -> Cost:
    with bench.database() as dsn:
        cost = system(dsn, count, Meter(bench))
        return Cost(cost.publish / count, cost.consume / count)


def chunks(count: int) -> list[int]:
    return [min(CHUNK, count - first) for first in range(0, count, CHUNK)]


def ours(batch: int, dsn: str, count: int, meter: Meter) -> Cost:
    done = 0

    def handle(message: pgq.Message) -> None:
        nonlocal done
        done += 1

    with pgq.connect(dsn) as client:
        client.create_queue(QUEUE)
        meter.lap()
        for size in chunks(count):
            client.publish_batch(QUEUE, [{"number": number} for number in range(size)])
        publish = meter.lap()
        pgq.Consumer(client, QUEUE, handle, batch_size=batch, drain=True).run(signals=False)
        return Cost(publish, finished(meter, done, count))


def ours_async(batch: int, dsn: str, count: int, meter: Meter) -> Cost:
    async def work() -> Cost:
        done = 0

        async def handle(message: pgq.Message) -> None:
            nonlocal done
            done += 1

        async with await pgq.connect_async(dsn) as client:
            await client.create_queue(QUEUE)
            meter.lap()
            for size in chunks(count):
                await client.publish_batch(QUEUE, [{"number": number} for number in range(size)])
            publish = meter.lap()
            consumer = pgq.AsyncConsumer(client, QUEUE, handle, batch_size=batch, drain=True)
            await consumer.run(signals=False)
            return Cost(publish, finished(meter, done, count))

    return asyncio.run(work())


def procrastinate(concurrency: int, dsn: str, count: int, meter: Meter) -> Cost:
    library: Any = import_module("procrastinate")
    app = library.App(
        connector=library.PsycopgConnector(conninfo=dsn, min_size=1, max_size=concurrency + 1)
    )
    done = 0

    @app.task(queue=QUEUE)  # type: ignore[untyped-decorator]
    async def job(number: int) -> None:
        nonlocal done
        done += 1

    async def work() -> Cost:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            meter.lap()
            for size in chunks(count):
                await job.batch_defer_async(*({"number": number} for number in range(size)))
            publish = meter.lap()
            await app.run_worker_async(
                queues=[QUEUE],
                wait=False,
                concurrency=concurrency,
                delete_jobs="always",
                listen_notify=False,
                install_signal_handlers=False,
            )
            return Cost(publish, finished(meter, done, count))

    return on_uvloop(work)


def pgqueuer(batch: int, dsn: str, count: int, meter: Meter) -> Cost:
    asyncpg: Any = import_module("asyncpg")
    library: Any = import_module("pgqueuer")
    drivers: Any = import_module("pgqueuer.db")
    types: Any = import_module("pgqueuer.types")
    queries: Any = import_module("pgqueuer.queries")

    async def work() -> Cost:
        done = 0
        words = dict(word.split("=", 1) for word in dsn.split())
        words["database"] = words.pop("dbname")
        conn = await asyncpg.connect(**words)
        driver = drivers.AsyncpgDriver(conn)
        await queries.Queries(driver).install()
        app = library.PgQueuer(driver)

        @app.entrypoint(QUEUE)  # type: ignore[untyped-decorator]
        async def job(found: Any) -> None:
            nonlocal done
            done += 1

        meter.lap()
        for size in chunks(count):
            payloads = [b'{"number": %d}' % number for number in range(size)]
            await queries.Queries(driver).enqueue([QUEUE] * size, payloads, [0] * size)
        publish = meter.lap()
        await app.qm.run(mode=types.QueueExecutionMode.drain, batch_size=batch)
        cost = Cost(publish, finished(meter, done, count))
        await conn.close()
        return cost

    return on_uvloop(work)


def on_uvloop(work: Callable[[], Coroutine[Any, Any, Cost]]) -> Cost:
    uvloop: Any = import_module("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work())


def finished(meter: Meter, done: int, count: int) -> float:
    if done != count:
        raise AssertionError(f"{done} of {count} jobs were done")
    return meter.lap()


SYSTEMS: dict[str, Callable[[str, int, Meter], Cost]] = {
    "pgq, by 100": partial(ours, 100),
    "pgq, by 1000": partial(ours, 1000),
    "pgq, asyncio, by 1000": partial(ours_async, 1000),
    "procrastinate, 1 at once": partial(procrastinate, 1),
    "procrastinate, 20 at once": partial(procrastinate, 20),
    "pgqueuer, by 10": partial(pgqueuer, 10),
    "pgqueuer, by 100": partial(pgqueuer, 100),
    "pgqueuer, by 1000": partial(pgqueuer, 1000),
}
