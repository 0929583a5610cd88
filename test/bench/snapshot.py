"""Effect of a long-running transaction (a held snapshot) on claims."""

from __future__ import annotations

import statistics
from functools import partial
from itertools import pairwise

from bench.cluster import Bench, Session
from bench.measure import alternate
from bench.report import Section, number
from bench.systems import Pgmq, Pgq, System, clean

CLAIM = 100


def run(bench: Bench, section: Section) -> None:
    section.say(
        "A REPEATABLE READ transaction holds its snapshot while messages are published and "
        f"consumed by {CLAIM}. VACUUM cannot remove the rows of messages that are consumed "
        "meanwhile. The figures are messages per second of backend CPU for claim and "
        "acknowledgement, in the first and in the last tenth of the claims. synchronous_commit "
        "is off, because waiting for the disk would hide a part of the effect."
    )
    rows = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for publish, count, rounds, limit in (
        (1000, bench.pick(6000, 100_000), bench.pick(1, 9), 0.9),
        (1, bench.pick(600, 100_000), 1, 0.9),
    ):
        with bench.database() as dsn, Session(dsn) as session:
            session.execute("set synchronous_commit = off")
            systems: list[System] = [Pgq(f"held{publish}"), Pgmq(f"held{publish}")]
            for system in systems:
                system.create(session)
                for _ in range(bench.pick(3, 20)):  # to warm up
                    turn(session, system, publish)
            results = alternate(
                rounds,
                {
                    system.name: partial(held, dsn, session, system, count, publish)
                    for system in systems
                },
            )
        for name, runs in results.items():
            curve = [statistics.median(tenth) for tenth in zip(*runs, strict=True)]
            first, last = curve[0], curve[-1]
            lines[f"{name}, published by {publish:,}"] = [
                (count * (tenth + 1) / len(curve), rate) for tenth, rate in enumerate(curve)
            ]
            what = f"by {publish}, {count:,} messages"
            verdict = ""
            if name == "pgq":
                verdict = section.at_least(
                    f"published {what}: rate kept", 100 * last / first, 100 * limit, "%"
                )
            kept = f"{number(100 * last / first)} %"
            rows.append([what, name, f"{first:,.0f}", f"{last:,.0f}", kept, verdict])
    section.table(["published", "system", "first tenth", "last tenth", "kept", ""], rows)
    section.plot(
        "Claims while a transaction holds a snapshot",
        "messages consumed",
        "messages per second of CPU",
        lines,
        log="y",
    )
    keeping_up(bench, section)


# The clock of leases and delays, with a setting that sets it forward.
CLOCK = """
create or replace function pgq.now() returns timestamptz
language sql volatile parallel safe
return clock_timestamp()
    + make_interval(secs => coalesce(current_setting('bench.ahead', true), '0')::float8)
"""
ADVANCE = """
select set_config('bench.ahead',
                  (coalesce(current_setting('bench.ahead', true), '0')::float8 + 0.03)::text, false)
"""
ROUNDS = {
    "all messages": ("select pgq.publish('q', '1', '{\"k\": 1}')", "null"),
    "a filter": ("select pgq.publish('q', '1', '{\"k\": 1}')", "'{\"k\": 1}'"),
    "delayed messages": ("select pgq.publish('q', '1', delay => interval '1 ms')", "null"),
    "expired leases": ("select pgq.publish('q', '1')", "null"),
}


def keeping_up(bench: Bench, section: Section) -> None:
    """Measure a consumer that keeps up with a publisher while a snapshot is held."""
    rounds = bench.pick(200, 100_000)
    section.say(
        "A consumer that keeps up with its publisher: in each round one message is published, "
        f"claimed and acknowledged, and one more claim finds the queue empty. There are {rounds:,} "
        "rounds while a snapshot is held. The figures are microseconds of backend CPU per round, "
        'in the first and in the last hundredth of the rounds. In the row "expired leases" each '
        "message is claimed twice, the first time with a lease of one millisecond. Instead of "
        "waiting for a delay or a lease, the clock of pgq is set forward by 30 ms."
    )
    rows = []
    for what, (publish, document) in ROUNDS.items():
        with bench.database() as dsn, Session(dsn) as session, Session(dsn) as holder:
            session.execute("set synchronous_commit = off")
            session.execute(CLOCK)
            session.execute("select pgq.create_queue('q', max_attempts => 9)")
            one = partial(once, session, publish, document, abandoned=what == "expired leases")
            for _ in range(bench.pick(20, 500)):
                one()
            holder.execute("begin isolation level repeatable read")
            holder.execute("select count(*) from pg_class")
            hundredth = max(1, rounds // 100)
            costs = []
            for _ in range(100):
                cpu = session.cpu()
                for _ in range(hundredth):
                    one()
                costs.append((session.cpu() - cpu) / hundredth)
            holder.execute("rollback")
        first, last = costs[0], costs[-1]
        verdict = section.at_most(f"keeping up, {what}: last : first", last / first, 1.2)
        rows.append([what, number(first), number(last), number(last / first), verdict])
    section.table(["", "first", "last", "ratio", ""], rows)


def once(session: Session, publish: str, document: str, *, abandoned: bool) -> None:
    """Publish one message, claim until it is found, acknowledge it, and claim once more."""
    session.execute(publish)
    if abandoned:
        session.execute("select * from pgq.claim('q', lease => interval '1 ms')")
    while not (row := session.execute(f"select * from pgq.claim('q', {document})").fetchone()):
        session.execute(ADVANCE)
    session.execute("select pgq.ack(%s)", row[0])
    session.execute(f"select * from pgq.claim('q', {document})")


def held(dsn: str, session: Session, system: System, count: int, publish: int) -> list[float]:
    """Return the rate of each tenth, or of each step if there are fewer than ten."""
    clean(session, system)
    turn(session, system, publish)  # VACUUM invalidates cached plans
    with Session(dsn) as holder:
        holder.execute("begin isolation level repeatable read")
        holder.execute("select count(*) from pg_class")
        steps = [turn(session, system, publish) for _ in range(count // max(publish, CLAIM))]
        holder.execute("rollback")
    tenths = min(10, len(steps))
    bounds = [len(steps) * tenth // tenths for tenth in range(tenths + 1)]
    return [statistics.mean(steps[a:b]) for a, b in pairwise(bounds)]


def turn(session: Session, system: System, publish: int) -> float:
    """Publish and consume; return the messages consumed per second of CPU."""
    count = max(publish, CLAIM)
    system.publish(session, count, publish)
    cpu = session.cpu()
    system.consume(session, count, CLAIM)
    return 1e6 * count / (session.cpu() - cpu)
