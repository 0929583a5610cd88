"""What a claim costs behind a backlog, and what it costs to look at one."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from functools import partial

from bench.cluster import Bench, Session
from bench.fill import fill_pgq
from bench.measure import alternate, measure
from bench.report import Section, number

CLAIMS = 6
SIZES = (10, 100)
FLAT = 1.3
Lines = dict[str, list[tuple[float, float]]]


def run(bench: Bench, section: Section) -> None:
    section.say(
        f"Backend CPU of one claim in microseconds (of {CLAIMS} in a row, without their "
        "acknowledgement, as often as the smallest backlog lasts), and the time of "
        "`select * from pgq.queue_stats` in milliseconds. In "
        "sets: published in large batches; one by one: each message a row of its own. To fill a "
        "queue takes minutes, in which the machine may become slower or faster: so the same claims "
        "from a queue of the smallest backlog, in a database of its own, take turns with them, and "
        "the ratio of both counts."
    )
    sizes = bench.pick([5000, 20_000, 50_000], [10_000, 100_000, 1_000_000, 10_000_000])
    beside = bench.pick(2000, 1_000_000)
    lines: Lines = {}
    in_sets = grow(bench, section, "in sets", sizes, 100, beside, lines)
    singles = grow(bench, section, "one by one", sizes[:-1], 1, 0, lines)
    section.table(
        [
            *("backlog", "claim of 10", ": smallest", "claim of 100", ": smallest"),
            *("queue_stats, ms", ""),
        ],
        in_sets + singles,
    )
    title = "CPU of one claim, by backlog"
    section.plot(title, "messages", "times that of the smallest backlog", lines, log="x")


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
    ratios: list[tuple[float, float]] = []
    with bench.database() as dsn, bench.database() as other, Session(dsn) as session:
        pair = {"deep": dsn, "smallest": other}
        with Session(other) as smallest:
            for each in (session, smallest):
                each.execute("select pgq.create_queue('deep', set_size => %s)", set_size)
            fill_pgq(smallest, "deep", sizes[0])
        for before, size in zip([0, *sizes], sizes, strict=False):
            fill_pgq(session, "deep", size - before)
            ratios.append(look(pair, sizes[0], section, f"{size:,} {name}", rows))
        if beside:
            fill_pgq(session, "deep", beside, spread=True)
            ratios.append(look(pair, sizes[0], section, f"and {beside:,} scheduled", rows))
            for _ in range(beside // 100):
                session.execute(
                    "select count(*) from pgq.claim('deep', n => 100, lease => '1 hour')"
                )
            ratios.append(look(pair, sizes[0], section, f"and {beside:,} leased", rows))
            expire(session, beside)
            ratios.append(look(pair, sizes[0], section, f"and {beside:,} expired", rows))
    for column, n in enumerate(SIZES):
        worst = max(ratio[column] for ratio in ratios)
        section.at_most(f"{name}: claim of {n}, dearest : smallest backlog", worst, FLAT)
        section.guard(f"{name}: a claim of {n} grows {worst:.1f} times with the backlog", worst < 5)
        points = zip(sizes, (ratio[column] for ratio in ratios), strict=False)
        lines[f"{n}, {name}"] = [(float(size), ratio) for size, ratio in points]
    return rows


def expire(session: Session, count: int) -> None:
    """Publish messages that expire at once, of a higher priority: they stand before all others."""
    session.execute("set synchronous_commit = off")
    for done in range(0, count, 50_000):
        session.execute(
            "insert into pgq.message (topic, payload, priority, expires_at)"
            " select 'deep', '1', 1, now() from generate_series(1, %s)",
            min(50_000, count - done),
        )
    session.execute("reset synchronous_commit")


def look(
    pair: dict[str, str], smallest: int, section: Section, what: str, rows: list[list[str]]
) -> tuple[float, float]:
    """Measure on warm connections; return the ratios of claims of 10 and of 100."""
    with ExitStack() as stack:
        sessions = {name: stack.enter_context(Session(dsn)) for name, dsn in pair.items()}
        left = sessions["smallest"].value("select pgq.backlog('deep')")
        fill_pgq(sessions["smallest"], "deep", smallest - int(left))
        for session in sessions.values():
            session.execute("analyze pgq.ready, pgq.lease, pgq.scheduled, pgq.message")
            claims(session, 10, 10)
        costs: list[tuple[float, float]] = []
        rounds = smallest // (CLAIMS * sum(SIZES)) - 1
        for n in SIZES:
            found = alternate(
                rounds,
                {name: partial(claim_cost, session, n) for name, session in sessions.items()},
            )
            deep, small = (statistics.median(found[name]) for name in pair)
            costs.append((deep, deep / small))
        for session in sessions.values():
            give_back(session)
        times = []
        for _ in range(10):
            started = time.perf_counter()
            sessions["deep"].execute("select * from pgq.queue_stats").fetchall()
            times.append(1000 * (time.perf_counter() - started))
    stats = statistics.median(times)
    verdict = section.at_most(f"{what}: queue_stats", stats, 10, "ms")
    cells = [number(value) for cost in costs for value in cost]
    rows.append([what, *cells, number(stats), verdict])
    return costs[0][1], costs[1][1]


def claim_cost(session: Session, n: int) -> float:
    """Return the CPU of one claim, of some in a row."""
    return measure(session, partial(claims, session, n, CLAIMS)).per(CLAIMS).cpu


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
