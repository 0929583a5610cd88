"""Jobs that do nothing, with the Python client and with other Python queues on PostgreSQL."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import Any

import pgq
from bench.cluster import Bench
from bench.meter import Meter
from bench.report import Section, number

LIMIT = 5.0
CHUNK = 1000
QUEUE = "jobs"


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU per job, of this process and the whole server together."""

    publish: float
    consume: float

    @property
    def whole(self) -> float:
        return self.publish + self.consume


@dataclass(frozen=True)
class Entry:
    """A system with a setting, the number of jobs, and more rounds if it may be the best."""

    system: str
    setting: str
    batch: int
    work: Callable[[str, int, Meter], Cost]
    small: int
    full: int
    rounds: int = 1

    @property
    def name(self) -> str:
        return f"{self.system}, {self.setting}"

    @property
    def plain(self) -> bool:
        """Whether the setting is a batch size and nothing else."""
        return self.setting == f"by {self.batch}"


def run(bench: Bench, section: Section) -> None:
    section.say(
        "One process publishes and consumes jobs that do nothing, in batches of this size. CPU is "
        "in microseconds per job, of the client and all server processes together. The ratio is "
        "to pgq with the same batch size. procrastinate and pgqueuer run on uvloop and are set up "
        "for speed, as their documentation advises."
    )
    section.points(
        "pgq uses its `Consumer` with a handler function. By default the batch size of the "
        "consumer adapts; messages are then published by 1,000.",
        "procrastinate uses `batch_defer_async`, deletes finished jobs and does not listen. Its "
        'workers fetch single jobs, 20 concurrently ("alone": one), so the batch size is that of '
        "publishing.",
        "pgqueuer uses asyncpg, `enqueue` with many jobs, and drain mode. It does not aggregate "
        "its log during the measurement.",
    )
    entries = {entry.name: entry for entry in ENTRIES}
    counts = {name: bench.pick(entry.small, entry.full) for name, entry in entries.items()}
    results: dict[str, list[Cost]] = {name: [] for name in entries}
    for round_ in range(bench.pick(1, 3)):
        for name, entry in entries.items():
            if round_ < entry.rounds:
                results[name].append(measure(bench, counts[name], entry.work))
    costs = {name: _median(found) for name, found in results.items()}
    rows = []
    lines: dict[str, list[tuple[float, float]]] = {}
    same = {e.batch: costs[e.name] for e in ENTRIES if e.plain and e.system == "pgq"}
    for name, cost in costs.items():
        entry = entries[name]
        figures = (cost.publish * 1e6, cost.consume * 1e6, 1 / cost.whole)
        ratio = number(cost.whole / same[entry.batch].whole)
        rows.append([name, f"{counts[name]:,}", *map(number, figures), ratio])
        if entry.plain:
            lines.setdefault(entry.system, []).append((entry.batch, cost.whole * 1e6))
    section.table(
        ["system", "jobs", "publish CPU", "consume CPU", "jobs per CPU second", "CPU : pgq"], rows
    )
    title = "CPU of one job, client and server together"
    section.plot(title, "jobs at once", "microseconds", lines, log="xy")
    ours = costs["pgq, by default"]
    for peer in ("procrastinate", "pgqueuer"):
        best = min((costs[name] for name in costs if name.startswith(peer)), key=_whole)
        what = f"jobs per CPU second by default, against {peer} at its best"
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


def chunks(count: int, batch: int) -> list[int]:
    return [min(batch, count - first) for first in range(0, count, batch)]


def ours(batch: int | None, dsn: str, count: int, meter: Meter) -> Cost:
    done = 0

    def handle(message: pgq.Message) -> None:
        nonlocal done
        done += 1

    with pgq.connect(dsn) as client:
        client.create_queue(QUEUE)
        meter.lap()
        for size in chunks(count, batch or CHUNK):
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
            for size in chunks(count, batch):
                await client.publish_batch(QUEUE, [{"number": number} for number in range(size)])
            publish = meter.lap()
            consumer = pgq.AsyncConsumer(client, QUEUE, handle, batch_size=batch, drain=True)
            await consumer.run(signals=False)
            return Cost(publish, finished(meter, done, count))

    return asyncio.run(work())


def procrastinate(batch: int, concurrency: int, dsn: str, count: int, meter: Meter) -> Cost:
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
            for size in chunks(count, batch):
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
        for size in chunks(count, batch):
            payloads = [b'{"number": %d}' % number for number in range(size)]
            await queries.Queries(driver).enqueue([QUEUE] * size, payloads, [0] * size)
        publish = meter.lap()
        await app.qm.run(
            mode=types.QueueExecutionMode.drain,
            batch_size=batch,
            log_aggregation_interval=timedelta(0),
        )
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


ENTRIES = [
    Entry("pgq", "by default", 1000, partial(ours, None), 10_000, 50_000, rounds=3),
    Entry("pgq", "by 1", 1, partial(ours, 1), 100, 3_000),
    Entry("pgq", "by 10", 10, partial(ours, 10), 500, 10_000),
    Entry("pgq", "by 100", 100, partial(ours, 100), 5_000, 50_000),
    Entry("pgq", "by 1000", 1000, partial(ours, 1000), 10_000, 50_000, rounds=3),
    Entry("pgq", "asyncio by 1000", 1000, partial(ours_async, 1000), 10_000, 50_000, rounds=3),
    Entry("procrastinate", "by 1", 1, partial(procrastinate, 1, 20), 100, 2_000),
    Entry("procrastinate", "by 10", 10, partial(procrastinate, 10, 20), 100, 2_000),
    Entry("procrastinate", "by 100", 100, partial(procrastinate, 100, 20), 200, 2_000),
    Entry("procrastinate", "by 1000", 1000, partial(procrastinate, 1000, 20), 1_000, 10_000, 2),
    Entry(
        "procrastinate", "alone, by 1000", 1000, partial(procrastinate, 1000, 1), 1_000, 10_000, 2
    ),
    Entry("pgqueuer", "by 1", 1, partial(pgqueuer, 1), 100, 2_000),
    Entry("pgqueuer", "by 10", 10, partial(pgqueuer, 10), 1_000, 10_000),
    Entry("pgqueuer", "by 100", 100, partial(pgqueuer, 100), 5_000, 50_000, rounds=3),
    Entry("pgqueuer", "by 1000", 1000, partial(pgqueuer, 1000), 10_000, 50_000, rounds=3),
]
