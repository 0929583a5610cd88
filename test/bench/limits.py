"""Limits and fairness: their cost, whether they hold, and the share of each tenant."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import psycopg

from bench.cluster import Bench, Session
from bench.report import Section, number
from harness import flow

CONSUMERS = 16
BATCH = 10
# Seconds of work for each message: none shows the CPU of claims, the others what a consumer sees.
WORK = (0.0, 0.001, 0.005)
# The throughput that consumers should keep with limits, as a share of that without.
LEAST = 0.8


@dataclass(frozen=True)
class Kind:
    """A queue with some limits."""

    name: str
    options: str
    fair: bool = True
    max_leased: int | None = None
    lane_max_leased: int | None = None


KINDS = (
    Kind("without limits", "", fair=False),
    Kind("max_leased", "max_leased => 1000", fair=False, max_leased=1000),
    Kind("fair", "fair => true"),
    Kind("rate", "rate => '1000000/s', burst => 10000", fair=False),
    Kind("lane_rate", "lane_rate => '10000/s', lane_burst => 1000"),
    Kind("lane_max_leased", "lane_max_leased => 5", lane_max_leased=5),
    Kind(
        "all of it",
        "max_leased => 1000, lane_max_leased => 5, rate => '1000000/s', burst => 10000, "
        "lane_rate => '10000/s', lane_burst => 1000, fair => true",
        max_leased=1000,
        lane_max_leased=5,
    ),
)


def run(bench: Bench, section: Section) -> None:
    tenants = bench.pick(20, 100)
    share = bench.pick(60, 300)
    section.say(
        f"There are {tenants} tenants, and the first has {tenants // 2} times as many messages as "
        "the last. The messages are published tenant by tenant. "
        f"{CONSUMERS} consumers claim {BATCH} messages at a time, do their work, and acknowledge "
        f"with the next claim. They stop when each tenant's fair share is {share} messages. "
        "Messages per second are the median of three rounds in which all variants run in turns "
        "(one round with 5 ms of work). Consumers that do no work show the CPU of claims. The "
        f"others wait 1 or 5 ms for each message. The target is {LEAST:.0%} of the throughput "
        "without limits."
    )
    section.say(
        "The other columns come from the audit log of the consumers without work: the largest "
        "number of messages that were leased at a time, in total and of one tenant, and the "
        "smallest and the largest share of a tenant, relative to its fair share."
    )
    speeds: dict[tuple[str, float], list[float]] = {
        (kind.name, work): [] for kind in KINDS for work in WORK
    }
    found: dict[tuple[str, float], list[str]] = {}
    for count in range(bench.pick(1, 3)):
        for kind in KINDS:
            # With much work one round is enough: the CPU of claims hardly matters.
            for work in WORK[: 2 if count else 3]:
                with bench.database() as dsn:
                    speed, facts = measure(dsn, kind, work, tenants, share, section)
                speeds[kind.name, work].append(speed)
                found[kind.name, work] = facts
    middle = {key: sorted(values)[len(values) // 2] for key, values in speeds.items()}
    rows = []
    for kind in KINDS:
        row = [kind.name]
        for work in WORK:
            ratio = middle[kind.name, work] / middle[KINDS[0].name, work]
            row += [f"{middle[kind.name, work]:,.0f}", number(ratio)]
            if bench.scale == "full" and kind is not KINDS[0]:
                what = f"{kind.name}, {work * 1000:g} ms of work: throughput : without limits"
                section.at_least(what, ratio, LEAST)
        rows.append([*row, *found[kind.name, WORK[0]]])
    section.table(
        [
            "limits",
            "no work: messages/s",
            ": without",
            "1 ms of work: messages/s",
            ": without",
            "5 ms: messages/s",
            ": without",
            "most leased",
            "of a tenant",
            "least share",
            "largest share",
        ],
        rows,
    )


def measure(
    dsn: str, kind: Kind, work: float, tenants: int, share: int, section: Section
) -> tuple[float, list[str]]:
    """Return the speed, and the figures from the audit log."""
    with Session(dsn) as session:
        options = f", {kind.options}" if kind.options else ""
        session.execute(f"select pgq.create_queue('jobs', lane_keys => '{{tenant}}'{options})")
        for tenant in range(tenants):
            size = max(share * tenants // 2 // (tenant + 1), share + share // 2)
            session.execute(
                "select count(*) from pgq.publish_batch('jobs',"
                " array(select to_jsonb(i) from generate_series(1, %s) i),"
                " array_fill(jsonb_build_object('tenant', %s::text), array[%s]))",
                size,
                f"t{tenant}",
                size,
            )
        session.execute("vacuum analyze")
    wanted = tenants * share
    done = [0] * CONSUMERS
    begin = threading.Barrier(CONSUMERS + 1)

    def consume(number: int) -> None:
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as conn:
            begin.wait()
            before: int | None = None
            while sum(done) < wanted:
                rows = conn.execute(
                    "select lease_id from pgq.claim('jobs', n => %s, done => %s::bigint)",
                    [BATCH, before],
                ).fetchall()
                before = rows[0][0] if rows else None
                time.sleep(work * len(rows))
                done[number] += len(rows)
            if before is not None:
                conn.execute("select pgq.ack(%s)", [before])

    threads = [threading.Thread(target=consume, args=[number]) for number in range(CONSUMERS)]
    for thread in threads:
        thread.start()
    begin.wait()
    started = time.monotonic()
    for thread in threads:
        thread.join()
    speed = sum(done) / (time.monotonic() - started)
    with psycopg.connect(dsn) as conn:
        leased = flow.most_leased(conn)
        of_tenant = flow.most_leased(conn, by_tenant=True)
        shares = flow.shares(conn)
    fair = sum(shares.values()) / tenants
    least, largest = min(shares.values()) / fair, max(shares.values()) / fair
    if len(shares) < tenants:
        least = 0.0
    if kind.max_leased is not None:
        section.guard(f"{kind.name}: more than max_leased", leased <= kind.max_leased)
    if kind.lane_max_leased is not None:
        section.guard(f"{kind.name}: more than lane_max_leased", of_tenant <= kind.lane_max_leased)
    if kind.fair:
        section.guard(f"{kind.name}: unfair", least >= 0.9 and largest <= 1.1)
    return speed, [f"{leased:,}", f"{of_tenant:,}", number(least), number(largest)]
