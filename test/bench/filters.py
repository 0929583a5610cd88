"""Cost of a claim with a filter when other messages come before its matches."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psycopg

from bench.cluster import Bench, Session
from bench.fill import CHUNK, fill_pgmq, fill_pgq
from bench.measure import Usage, measure, median
from bench.report import Section, number

OTHERS = '{"type": "order", "region": "eu", "amount": 10}'
MATCH = '{"type": "refund", "region": "eu", "amount": 10}'
REFUNDS: Mapping[str, object] = {"type": "refund"}
# The first two conditions match, so all three must be tested.
THREE: Mapping[str, object] = {"type": "order", "region": ["eu", "us"], "amount": {"$gt": 1000}}
CLAIMS = 20
N = 10
# Messages for many recipients. pgmq tests its condition on the message, so the recipient is in it.
FILL_RECIPIENTS = """
insert into pgq.message (topic, recipient, payload)
select 'mail', 'r' || (i * 7919 %% %s), jsonb_build_object('number', i, 'text', repeat('x', 150))
from generate_series(%s::bigint, %s::bigint) i
"""
FILL_PGMQ_RECIPIENTS = """
select count(*) from pgmq.send_batch('mail', array(
    select jsonb_build_object('recipient', 'r' || (i * 7919 %% %s), 'number', i,
                              'text', repeat('x', 150))
    from generate_series(%s::bigint, %s::bigint) i))
"""
PATTERNS = (1, 8, 33, 100, 250, 1000)


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
    peer_fruitless: Usage
    test: float

    def row(self) -> list[str]:
        usages = [self.lanes, self.first, self.next, self.fruitless, self.idle]
        usages += [self.peer, self.peer_fruitless]
        return [
            f"{self.others:,}",
            *(f"{number(usage.cpu / 1000)} / {number(usage.seconds * 1000)}" for usage in usages),
            number(self.test),
        ]


def run(bench: Bench, section: Section) -> None:
    section.say(
        f"Claims of {N} with a filter, in milliseconds of backend CPU / elapsed. The matches were "
        "published after all other messages."
    )
    section.points(
        "With lanes: the queue has a lane key for the filter.",
        "Without lanes: the first claim with the filter, and later claims, which continue at "
        "the filter's scan cursor.",
        "No match: a filter that matches no message. The first claim, and later claims of an "
        "idle consumer.",
        "pgmq: a read with a condition.",
        "Testing: microseconds of CPU for one message and a filter of three conditions, all of "
        "which must be tested.",
    )
    sizes = bench.pick([2000, 20_000], [20_000, 200_000, 5_000_000])
    found = []
    with bench.database() as dsn:
        for before, others in zip([0, *sizes], sizes, strict=False):
            found.append(at_size(dsn, others, others - before))
    section.table(
        [
            "others",
            "with lanes",
            "without, first",
            "without, next",
            "no match, first",
            "no match, idle",
            "pgmq",
            "pgmq, no match",
            "testing",
        ],
        [size.row() for size in found],
    )
    lines = {
        "with lanes": [(size.others, size.lanes.cpu / 1000) for size in found],
        "without, first claim": [(size.others, size.first.cpu / 1000) for size in found],
        "without, later claims": [(size.others, size.next.cpu / 1000) for size in found],
        "pgmq": [(size.others, size.peer.cpu / 1000) for size in found],
    }
    title = "CPU of a claim by filter, by the number of other messages before the matches"
    section.plot(title, "other messages", "milliseconds", lines, log="xy")
    flat = max(size.lanes.cpu for size in found) / found[0].lanes.cpu
    section.at_most("with lanes: worst : smallest backlog", flat, 1.5)
    section.guard(f"a claim with lanes grows {flat:.1f} times with the backlog", flat < 4)
    dearest = max(size.lanes.cpu for size in found) / 1000
    section.at_most("with lanes: CPU of a claim", dearest, 2, "ms")
    for size in found[1:]:
        section.at_most(
            f"without lanes, no match, first time, {size.others:,}: pgq : pgmq",
            size.fruitless.cpu / size.peer_fruitless.cpu,
            1.2,
        )
    section.at_most("testing a message, three conditions", found[-1].test, 2, "us")
    to_recipients(bench, section)
    by_patterns(bench, section)


def to_recipients(bench: Bench, section: Section) -> None:
    """Claim for one of many recipients, whose messages are mixed with all others."""
    recipients, messages = bench.pick((2000, 10_000), (1_000_000, 5_000_000))
    section.say(
        f"Claims for one of {recipients:,} recipients from a queue of {messages:,} messages, in "
        "milliseconds of backend CPU / elapsed. The queue has the hashed lane key "
        "`msg.recipient`. pgmq reads with a condition. Publishing is in microseconds of backend "
        "CPU per message, in transactions of 50,000 messages."
    )
    with bench.database() as dsn:
        with Session(dsn) as session:
            session.execute("select pgq.create_queue('mail', lane_keys => '{#msg.recipient}')")
            session.execute("select pgmq.create('mail')")
            session.execute("set synchronous_commit = off")
            sizes = (recipients, messages)
            published = measure(session, lambda: fill(session, FILL_RECIPIENTS, *sizes))
            peer_published = measure(session, lambda: fill(session, FILL_PGMQ_RECIPIENTS, *sizes))
            session.execute("vacuum analyze")
        with Session(dsn) as session:
            wanted = [{"msg.recipient": f"r{i * 31 % recipients}"} for i in range(CLAIMS + 5)]
            # Claim messages of each recipient twice, then all that remain, then find none.
            first = [take(session, "mail", document, 1, n=2)[0] for document in wanted]
            usages = [take(session, "mail", document, 1, n=2)[0] for document in wanted]
            take(session, "mail", {"msg.recipient": [w["msg.recipient"] for w in wanted]}, 1, n=999)
            none = [take(session, "mail", document, 1)[0] for document in wanted]
            peers = [read(session, {"recipient": f"r{i}"}, "mail") for i in range(3)]
    claim, peer = median(usages), median(peers)
    section.table(
        ["", "claim, a new filter", "claim", "claim, none left", "publish"],
        [
            [
                "pgq",
                both(median(first[5:])),
                both(claim),
                both(median(none)),
                number(published.cpu / messages),
            ],
            ["pgmq", "", both(peer), "", number(peer_published.cpu / messages)],
        ],
    )
    section.at_most(f"one of {recipients:,} recipients: CPU of a claim", claim.cpu / 1000, 1, "ms")
    section.guard(
        f"a claim for one of {recipients:,} recipients takes {claim.cpu / 1000:.1f} ms",
        claim.cpu < 50_000,
    )


def both(usage: Usage) -> str:
    return f"{number(usage.cpu / 1000)} / {number(usage.seconds * 1000)}"


def fill(session: Session, query: str, recipients: int, messages: int) -> None:
    for first in range(1, messages + 1, CHUNK):
        session.execute(query, recipients, first, min(first + CHUNK - 1, messages))


def by_patterns(bench: Bench, section: Section) -> None:
    """Claim with filters that have many patterns for one field."""
    count = bench.pick(1000, 20_000)
    section.say(
        f"Claims that test {count:,} messages without a match, by the number of patterns in "
        "one list, in microseconds of backend CPU per message. The filter is compiled and stored "
        "before, by a claim from an empty queue. The texts have 30 random letters. A row ends "
        "where pgq rejects longer lists: patterns without a fixed beginning count as more nodes."
    )
    kinds: dict[str, Callable[[str], object]] = {
        "values": lambda word: word,
        "prefix": lambda word: {"prefix": word},
        "wildcard a*b": lambda word: {"wildcard": f"{word[:4]}*{word[4:]}"},
        "suffix": lambda word: {"suffix": word[:4]},
        "wildcard *a*": lambda word: {"wildcard": f"*{word[:4]}*"},
        "equals-ignore-case": lambda word: {"equals-ignore-case": word},
    }
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=8)) for _ in range(1000)]
    lines: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    compiled: dict[str, float] = {}
    with bench.database() as dsn, Session(dsn) as session:
        session.execute("select pgq.create_queue('texts'), pgq.create_queue('none')")
        session.execute(
            "insert into pgq.message (topic, headers, payload) select 'texts',"
            " jsonb_build_object('text', (select string_agg(chr(97 + (random() * 25)::int), '')"
            " from generate_series(1, 30 + i - i))), '1' from generate_series(1, %s) i",
            count,
        )
        session.execute("vacuum analyze")
        take(session, "texts", {"text": "warm"}, 1)
        for kind, pattern in kinds.items():
            for patterns in PATTERNS:
                document = {"text": [pattern(word) for word in words[:patterns]]}
                try:
                    compiled[kind] = take(session, "none", document, 1)[0].cpu / 1000
                except psycopg.Error as error:
                    if error.sqlstate != "QU004":
                        raise
                    break
                usage = take(session, "texts", document, 1)[0]
                lines[kind].append((patterns, usage.cpu / count))
    section.table(
        ["patterns", *(f"{patterns:,}" for patterns in PATTERNS), "compile the longest, ms"],
        [
            [
                kind,
                *(number(cpu) for _, cpu in points),
                *[""] * (len(PATTERNS) - len(points)),
                number(compiled[kind]),
            ]
            for kind, points in lines.items()
        ],
    )
    title = "CPU of testing a message, by the number of patterns in one list"
    section.plot(title, "patterns", "microseconds", lines, log="xy")
    for kind, points in lines.items():
        dearest = max(cpu for _, cpu in points)
        most = f"{points[-1][0]:,.0f}"
        section.at_most(f"{kind}: up to {most} patterns, CPU of a test", dearest, 20, "us")
        section.at_most(f"{kind}: {most} patterns, CPU of compiling", compiled[kind], 50, "ms")


def at_size(dsn: str, others: int, more: int) -> Found:
    """Add to the backlog, publish matches after it and claim them."""
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
        # A new document each time: the scan cursor belongs to a document.
        fresh = ({**REFUNDS, "region": ["eu", f"{others}-{i}"]} for i in itertools.count())
        first = median([take(session, "plain", next(fresh), 1)[0] for _ in range(3)])
        take(session, "plain", REFUNDS, 1)
        later = median(take(session, "plain", REFUNDS, CLAIMS - 1))
        nothing = {"type": "nothing", "at": str(others)}
        fruitless = take(session, "plain", nothing, 1)[0]
        idle = median(take(session, "plain", nothing, CLAIMS))
        three = {**THREE, "amount": {"$gt": 1000 + others}}
        tested = take(session, "plain", three, 1)[0].cpu / others
        peer = median([read(session, REFUNDS) for _ in range(5)])
        peer_fruitless = median([read(session, nothing) for _ in range(3)])
        # Remove the remaining matches before the next size.
        drain(session, "laned")
        drain(session, "plain")
        session.execute("delete from pgmq.q_deals where message ->> 'type' = 'refund'")
    return Found(others, lanes, first, later, fruitless, idle, peer, peer_fruitless, tested)


def take(
    session: Session, queue: str, document: Mapping[str, object], times: int, n: int = N
) -> list[Usage]:
    """Claim and acknowledge; return the costs of the claims."""
    text = json.dumps(dict(document))
    usages = []
    for _ in range(times):
        leases: list[int] = []

        def claim(leases: list[int] = leases) -> None:
            rows = session.execute("select * from pgq.claim(%s, %s, %s)", queue, text, n)
            leases += {row[0] for row in rows}

        usages.append(measure(session, claim))
        for lease in leases:
            session.execute("select pgq.ack(%s)", lease)
    return usages


def read(session: Session, document: Mapping[str, object], queue: str = "deals") -> Usage:
    """Read from pgmq with a condition; the messages stay hidden for an hour."""
    condition = json.dumps(dict(document))
    return measure(
        session,
        lambda: session.execute(
            "select * from pgmq.read(%s, 3600, %s, %s)", queue, N, condition
        ).fetchall(),
    )


def drain(session: Session, queue: str) -> None:
    session.execute(
        "select pgq.ack(lease_id) from (select distinct lease_id from pgq.claim(%s, %s, 10000)) c",
        queue,
        json.dumps(dict(REFUNDS)),
    )
