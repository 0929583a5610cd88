"""What a claim costs behind a backlog, and what it costs to look at one."""

from __future__ import annotations

import statistics
import time
from functools import partial

from bench.cluster import Bench, Session
from bench.fill import fill_pgq
from bench.measure import measure
from bench.report import Section, number

CLAIMS = 30
FLAT = 1.5
Lines = dict[str, list[tuple[float, float]]]


def run(bench: Bench, section: Section) -> None:
    section.say(
        f"Backend CPU of one claim in microseconds (of {CLAIMS} in a row, without their "
        "acknowledgement), and the time of `select * from pgq.queue_stats` in milliseconds. In "
        "sets: published in large batches; one by one: each message a row of its own."
    )
    sizes = bench.pick([5000, 20_000, 50_000], [10_000, 100_000, 1_000_000, 10_000_000])
    beside = bench.pick(2000, 1_000_000)
    lines: Lines = {}
    in_sets = grow(bench, section, "in sets", sizes, 100, beside, lines)
    singles = grow(bench, section, "one by one", sizes[:-1], 1, 0, lines)
    section.table(
        ["backlog", "claim of 10", "claim of 100", "queue_stats, ms", ""], in_sets + singles
    )
    section.plot("CPU of one claim, by backlog", "messages", "microseconds", lines, log="x")


def grow(
    bench: Bench,
    section: Section,
    name: str,
    sizes: list[int],
    set_size: int,
    beside: int,
    lines: Lines,
) -> list[list[str]]:
    """Measure at each size, then with scheduled and leased messages beside the largest."""
    rows: list[list[str]] = []
    costs: list[tuple[float, float]] = []
    with bench.database() as dsn, Session(dsn) as session:
        session.execute("select pgq.create_queue('deep', set_size => %s)", set_size)
        for before, size in zip([0, *sizes], sizes, strict=False):
            fill_pgq(session, "deep", size - before)
            costs.append(look(dsn, section, f"{size:,} {name}", rows))
        if beside:
            fill_pgq(session, "deep", beside, spread=True)
            costs.append(look(dsn, section, f"and {beside:,} scheduled", rows))
            for _ in range(beside // 100):
                session.execute(
                    "select count(*) from pgq.claim('deep', n => 100, lease => '1 hour')"
                )
            costs.append(look(dsn, section, f"and {beside:,} leased", rows))
    for column, n in enumerate((10, 100)):
        worst = max(cost[column] for cost in costs) / costs[0][column]
        section.at_most(f"{name}: claim of {n}, dearest : smallest backlog", worst, FLAT)
        section.guard(f"{name}: a claim of {n} grows {worst:.1f} times with the backlog", worst < 5)
        points = zip(sizes, (cost[column] for cost in costs), strict=False)
        lines[f"{n}, {name}"] = [(float(size), cost) for size, cost in points]
    return rows


def look(dsn: str, section: Section, what: str, rows: list[list[str]]) -> tuple[float, float]:
    """Measure on a warm connection of its own; return the CPU of claims of 10 and of 100."""
    with Session(dsn) as session:
        session.execute("analyze pgq.ready, pgq.lease, pgq.scheduled, pgq.message")
        claims(session, 10, 10)
        ten = measure(session, partial(claims, session, 10, CLAIMS)).per(CLAIMS)
        hundred = measure(session, partial(claims, session, 100, CLAIMS)).per(CLAIMS)
        give_back(session)
        times = []
        for _ in range(10):
            started = time.perf_counter()
            session.execute("select * from pgq.queue_stats").fetchall()
            times.append(1000 * (time.perf_counter() - started))
    stats = statistics.median(times)
    verdict = section.at_most(f"{what}: queue_stats", stats, 10, "ms")
    rows.append([what, number(ten.cpu), number(hundred.cpu), number(stats), verdict])
    return ten.cpu, hundred.cpu


def claims(session: Session, n: int, times: int) -> None:
    for _ in range(times):
        query = "select * from pgq.claim('deep', n => %s, lease => '59 min')"
        if session.execute(query, n).rowcount != n:
            raise RuntimeError("the backlog has run dry")


def give_back(session: Session) -> None:
    """End the claims of this connection; those that stay leased were made for an hour."""
    session.execute(
        "select pgq.ack(lease_id) from (select distinct lease_id from pgq.lease "
        "where until - claimed_at = interval '59 min') l"
    )
