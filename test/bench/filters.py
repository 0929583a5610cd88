"""What a filtered claim costs when its matches stand behind other messages."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass

from bench.cluster import Bench, Session
from bench.fill import fill_pgmq, fill_pgq
from bench.measure import Usage, measure, median
from bench.report import Section, number

OTHERS = '{"type": "order", "region": "eu", "amount": 10}'
MATCH = '{"type": "refund", "region": "eu", "amount": 10}'
REFUNDS: Mapping[str, object] = {"type": "refund"}
# All three conditions have to be looked at before it is clear that there is no match.
THREE: Mapping[str, object] = {"type": "order", "region": ["eu", "us"], "amount": {"$gt": 1000}}
CLAIMS = 20
N = 10


@dataclass
class Found:
    """The costs at one size."""

    others: int
    lanes: Usage
    first: Usage
    next: Usage
    fruitless: Usage
    idle: Usage
    peer: Usage
    test: float

    def row(self) -> list[str]:
        usages = (self.lanes, self.first, self.next, self.fruitless, self.idle, self.peer)
        return [
            f"{self.others:,}",
            *(f"{number(usage.cpu / 1000)} / {number(usage.seconds * 1000)}" for usage in usages),
            number(self.test),
        ]


def run(bench: Bench, section: Section) -> None:
    section.say(
        f"Claims of {N} with a filter, milliseconds of backend CPU / on the clock. The matches "
        "were published after all the other messages. With lanes: the queue has a lane key for "
        "the filter. Without: the first claim with a filter, and later ones, which know how far "
        "it has looked; a filter that matches nothing, the first time and again (an idle "
        "consumer). pgmq: read with its condition. Testing: microseconds of CPU for one message "
        "and a filter of three conditions, all of which have to be looked at."
    )
    sizes = bench.pick([2000, 20_000], [20_000, 200_000, 5_000_000])
    found = []
    with bench.database() as dsn:
        for before, others in zip([0, *sizes], sizes, strict=False):
            found.append(at_size(dsn, others, others - before))
    section.table(
        [
            *("others", "with lanes", "without, first", "without, next", "no match, first"),
            *("no match, idle", "pgmq", "testing"),
        ],
        [size.row() for size in found],
    )
    lines = {
        "with lanes": [(size.others, size.lanes.cpu / 1000) for size in found],
        "without, first claim": [(size.others, size.first.cpu / 1000) for size in found],
        "without, later claims": [(size.others, size.next.cpu / 1000) for size in found],
        "pgmq": [(size.others, size.peer.cpu / 1000) for size in found],
    }
    title = "CPU of a claim by filter, by how many others stand before the matches"
    section.plot(title, "other messages", "milliseconds", lines, log="xy")
    flat = max(size.lanes.cpu for size in found) / found[0].lanes.cpu
    section.at_most("with lanes: dearest : smallest backlog", flat, 1.5)
    section.guard(f"a claim with lanes grows {flat:.1f} times with the backlog", flat < 4)
    dearest = max(size.lanes.cpu for size in found) / 1000
    section.at_most("with lanes: CPU of a claim", dearest, 2, "ms")
    section.at_most("testing a message, three conditions", found[-1].test, 2, "us")


def at_size(dsn: str, others: int, more: int) -> Found:
    """Add to the backlog, put matches behind it and take them."""
    with Session(dsn) as session:
        session.execute("select pgq.create_queue('laned', lane_keys => '{type}')")
        session.execute("select pgq.create_queue('plain')")
        session.execute("select pgq.subscribe('laned', 'deals'), pgq.subscribe('plain', 'deals')")
        session.execute("select pgmq.create('deals')")
        fill_pgq(session, "deals", more, OTHERS)
        fill_pgmq(session, "deals", more, OTHERS)
        fill_pgq(session, "deals", (CLAIMS + 5) * N, MATCH)
        fill_pgmq(session, "deals", (CLAIMS + 5) * N, MATCH)
        session.execute("vacuum analyze pgq.ready, pgq.message, pgmq.q_deals")
    with Session(dsn) as session:
        take(session, "laned", REFUNDS, 5)
        lanes = median(take(session, "laned", REFUNDS, CLAIMS))
        # A new document each time: what was learnt about one is of no use to another.
        fresh = ({**REFUNDS, "region": ["eu", f"{others}-{i}"]} for i in itertools.count())
        first = median([take(session, "plain", next(fresh), 1)[0] for _ in range(3)])
        take(session, "plain", REFUNDS, 1)
        later = median(take(session, "plain", REFUNDS, CLAIMS - 1))
        nothing = {"type": "nothing", "at": str(others)}
        fruitless = take(session, "plain", nothing, 1)[0]
        idle = median(take(session, "plain", nothing, CLAIMS))
        three = {**THREE, "amount": {"$gt": 1000 + others}}
        tested = take(session, "plain", three, 1)[0].cpu / others
        peer = median([read(session) for _ in range(5)])
        # Nothing that matches remains for the next size.
        drain(session, "laned")
        drain(session, "plain")
        session.execute("delete from pgmq.q_deals where message ->> 'type' = 'refund'")
    return Found(others, lanes, first, later, fruitless, idle, peer, tested)


def take(session: Session, queue: str, document: Mapping[str, object], times: int) -> list[Usage]:
    """Claim and acknowledge; return what the claims cost."""
    text = json.dumps(dict(document))
    usages = []
    for _ in range(times):
        leases: list[int] = []

        def claim(leases: list[int] = leases) -> None:
            rows = session.execute("select * from pgq.claim(%s, %s, %s)", queue, text, N)
            leases += {row[0] for row in rows}

        usages.append(measure(session, claim))
        for lease in leases:
            session.execute("select pgq.ack(%s)", lease)
    return usages


def read(session: Session) -> Usage:
    """Read from pgmq with its condition; what is read stays hidden for an hour."""
    condition = json.dumps(dict(REFUNDS))
    return measure(
        session,
        lambda: session.execute(
            "select * from pgmq.read('deals', 3600, %s, %s)", N, condition
        ).fetchall(),
    )


def drain(session: Session, queue: str) -> None:
    session.execute(
        "select pgq.ack(lease_id) from (select distinct lease_id from pgq.claim(%s, %s, 10000)) c",
        *(queue, json.dumps(dict(REFUNDS))),
    )
