"""Cost of a claim, and of queue_stats, by the size of the backlog."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from bench.cluster import Bench, Session
from bench.fill import fill_pgmq, fill_pgq
from bench.measure import alternate, measure
from bench.report import Section, number

CLAIMS = 6
SIZES = (10, 100)
FLAT = 1.3


def run(bench: Bench, section: Section) -> None:
    section.say(
        f"Backend CPU of one claim in microseconds, without its acknowledgement. Each round makes "
        f"{CLAIMS} claims in a row, and there are as many rounds as the smallest backlog allows. "
        "The next columns are the ratio to the smallest backlog, and the elapsed time of "
        '`select * from pgq.queue_stats` in milliseconds. "In sets" means that messages were '
        'published in large batches; "one by one" means that each message has its own row.'
    )
    section.say(
        "Filling a queue takes minutes, and the speed of the machine may change meanwhile. "
        "Therefore the same claims are made in turns from a queue with the smallest backlog, in "
        "another database, and the target limits the ratio. pgmq is `pgmq.read` of 100 behind as "
        "many messages in the same database. pgmq was not measured beside scheduled and expired "
        "messages."
    )
    sizes = bench.pick([5000, 20_000, 50_000], [10_000, 100_000, 1_000_000, 10_000_000])
    beside = bench.pick(2000, 1_000_000)
    in_sets = grow(bench, section, "in sets", sizes, 100, beside)
    singles = grow(bench, section, "one by one", sizes[:-1], 1, 0)
    columns = "backlog|claim of 10|: smallest|claim of 100|: smallest|pgmq, 100|queue_stats, ms|"
    section.table(columns.split("|"), [costs.row() for costs in in_sets + singles])
    sized = {
        name: [(costs.size, costs) for costs in measured if costs.size is not None]
        for name, measured in (("in sets", in_sets), ("one by one", singles))
    }
    behind = {
        f"pgq, published {name}": [(size, costs.cpu[1]) for size, costs in measured]
        for name, measured in sized.items()
    }
    behind["pgmq"] = [(size, c.peer) for size, c in sized["in sets"] if c.peer is not None]
    title = "CPU of a claim of 100 behind a backlog"
    section.plot(title, "messages in the queue", "microseconds", behind, log="x")
    lines = {
        f"{n}, {name}": [(size, costs.ratios[column]) for size, costs in measured]
        for name, measured in sized.items()
        for column, n in enumerate(SIZES)
    }
    title = "CPU of one claim, by backlog"
    section.plot(title, "messages", "times that of the smallest backlog", lines, log="x")


@dataclass(frozen=True)
class Costs:
    """The costs behind one backlog: `cpu` and `ratios` are for claims of 10 and of 100."""

    what: str
    #: Ready messages in the queue; None if there are also scheduled, leased or expired ones.
    size: int | None
    cpu: tuple[float, float]
    ratios: tuple[float, float]
    #: A read of 100 by pgmq.
    peer: float | None
    stats_ms: float
    verdict: str

    def row(self) -> list[str]:
        claims = [value for pair in zip(self.cpu, self.ratios, strict=True) for value in pair]
        peer = "" if self.peer is None else number(self.peer)
        return [self.what, *map(number, claims), peer, number(self.stats_ms), self.verdict]


def grow(
    bench: Bench, section: Section, name: str, sizes: list[int], set_size: int, beside: int
) -> list[Costs]:
    """Measure at each size, then add scheduled, leased and expired messages to the largest.

    pgmq is measured with the messages that are published in sets.
    """
    measured: list[Costs] = []
    peer = beside > 0
    with bench.database() as dsn, bench.database() as other, Session(dsn) as session:
        pair = {"deep": dsn, "smallest": other}
        at = partial(measure_claims, pair, sizes[0], section)
        with Session(other) as smallest:
            for each in (session, smallest):
                each.execute("select pgq.create_queue('deep', set_size => %s)", set_size)
            fill_pgq(smallest, "deep", sizes[0])
        if peer:
            session.execute("select pgmq.create('deep')")
        for before, size in zip([0, *sizes], sizes, strict=False):
            fill_pgq(session, "deep", size - before)
            if peer:
                fill_pgmq(session, "deep", size - before)
            measured.append(at(f"{size:,} {name}", size=size, peer=peer))
        if beside:
            fill_pgq(session, "deep", beside, spread=True)
            measured.append(at(f"and {beside:,} scheduled"))
            for _ in range(beside // 100):
                session.execute(
                    "select count(*) from pgq.claim('deep', n => 100, lease => '1 hour')"
                )
            session.execute("select count(*) from pgmq.read('deep', 3600, %s)", beside)
            measured.append(at(f"and {beside:,} leased", peer=True))
            expire(session, beside)
            measured.append(at(f"and {beside:,} expired"))
    for column, n in enumerate(SIZES):
        worst = max(costs.ratios[column] for costs in measured)
        section.at_most(f"{name}: claim of {n}, worst : smallest backlog", worst, FLAT)
        section.guard(f"{name}: a claim of {n} grows {worst:.1f} times with the backlog", worst < 5)
    return measured


def expire(session: Session, count: int) -> None:
    """Publish messages that expire immediately; their higher priority puts them first."""
    session.execute("set synchronous_commit = off")
    for done in range(0, count, 50_000):
        session.execute(
            "insert into pgq.message (topic, payload, priority, expires_at)"
            " select 'deep', '1', 1, now() from generate_series(1, %s)",
            min(50_000, count - done),
        )
    session.execute("reset synchronous_commit")


def measure_claims(
    pair: dict[str, str],
    smallest: int,
    section: Section,
    what: str,
    *,
    size: int | None = None,
    peer: bool = False,
) -> Costs:
    """Measure claims, queue_stats and pgmq's read on warm connections."""
    with ExitStack() as stack:
        sessions = {name: stack.enter_context(Session(dsn)) for name, dsn in pair.items()}
        left = sessions["smallest"].value("select pgq.backlog('deep')")
        fill_pgq(sessions["smallest"], "deep", smallest - int(left))
        for session in sessions.values():
            session.execute("analyze pgq.ready, pgq.lease, pgq.scheduled, pgq.message")
            claims(session, 10, 10)
        cpu: list[float] = []
        ratios: list[float] = []
        rounds = smallest // (CLAIMS * sum(SIZES)) - 1
        for n in SIZES:
            found = alternate(
                rounds,
                {name: partial(claim_cost, session, n) for name, session in sessions.items()},
            )
            deep, small = (statistics.median(found[name]) for name in pair)
            cpu.append(deep)
            ratios.append(deep / small)
        for session in sessions.values():
            give_back(session)
        read = read_cost(sessions["deep"], rounds) if peer else None
        times = []
        for _ in range(10):
            started = time.perf_counter()
            sessions["deep"].execute("select * from pgq.queue_stats").fetchall()
            times.append(1000 * (time.perf_counter() - started))
    stats = statistics.median(times)
    verdict = section.at_most(f"{what}: queue_stats", stats, 10, "ms")
    return Costs(what, size, (cpu[0], cpu[1]), (ratios[0], ratios[1]), read, stats, verdict)


def read_cost(session: Session, rounds: int) -> float:
    """Return the CPU of a read of 100 by pgmq; make the messages visible again."""
    session.execute("analyze pgmq.q_deep")
    ids: list[int] = []

    def read() -> None:
        for _ in range(CLAIMS):
            rows = session.execute("select * from pgmq.read('deep', 3600, 100)").fetchall()
            ids.extend(row[0] for row in rows)

    read()
    costs = [measure(session, read).per(CLAIMS).cpu for _ in range(rounds)]
    if len(ids) != 100 * CLAIMS * (rounds + 1):
        raise RuntimeError("the backlog of pgmq is too small")
    session.execute("select pgmq.set_vt('deep', %s::bigint[], 0)", ids)
    session.execute("vacuum pgmq.q_deep")
    return statistics.median(costs)


def claim_cost(session: Session, n: int) -> float:
    """Return the CPU of one claim, the mean of several in a row."""
    return measure(session, partial(claims, session, n, CLAIMS)).per(CLAIMS).cpu


def claims(session: Session, n: int, times: int) -> None:
    for _ in range(times):
        query = "select * from pgq.claim('deep', n => %s, lease => '59 min')"
        if session.execute(query, n).rowcount != n:
            raise RuntimeError("the backlog has run dry")


def give_back(session: Session) -> None:
    """Acknowledge the claims of this measurement; other leases have a duration of one hour."""
    session.execute(
        "select pgq.ack(lease_id) from (select distinct lease_id from pgq.lease "
        "where until - claimed_at = interval '59 min') l"
    )
