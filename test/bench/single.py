"""Single operations in milliseconds, beside the figures in SmartMessage's document."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from bench.cluster import Bench, Session
from bench.fill import fill_pgq
from bench.measure import Usage, measure, percentile
from bench.report import Section, number
from bench.systems import HEADERS, PAYLOADS

BATCH = 100
PEOPLE = 50


@dataclass(frozen=True)
class Operation:
    """An operation and the milliseconds that the document expects; `most` is the target."""

    what: str
    expected: str
    most: float
    statement: str
    #: Returns the parameters of the i-th call; this is not measured.
    parameters: Callable[[int], tuple[object, ...]] = lambda _: ()


def run(bench: Bench, section: Section) -> None:
    messages = bench.pick(20_000, 500_000)
    times = bench.pick(40, 300)
    section.say(
        "Each call is one transaction over a socket, durable if it writes. The columns are the "
        "milliseconds that the document expects, the elapsed milliseconds (median and 95th "
        f"percentile), and the milliseconds of backend CPU. The large queue has {messages:,} "
        f"messages with ten priorities and {PEOPLE} recipients. The filter matches a tenth of "
        "them."
    )
    with bench.database() as dsn, Session(dsn) as session:
        session.execute("select pgq.create_queue('small')")
        session.execute("select pgq.create_queue('large', lane_keys => '{to}')")
        session.execute("select pgq.create_queue('plain')")
        session.execute("select pgq.subscribe('plain', 'large')")
        session.execute(
            "insert into pgq.message (topic, priority, headers, payload)"
            " select 'large', i * 7 %% 10, jsonb_build_object('to', 'entity ' || i %% %s::int),"
            " jsonb_build_object('order', jsonb_build_object('amount', i * 13 %% 1000))"
            " from generate_series(1, %s) i",
            PEOPLE,
            messages,
        )
        session.execute("vacuum analyze pgq.message, pgq.ready")
        rows = []
        medians = []
        for operation in operations(session):
            # The first calls, which compile the filters, are measured below, not here.
            found = [once(session, operation, i) for i in range(times + PEOPLE)][PEOPLE:]
            clock = [usage.seconds * 1000 for usage in found]
            middle = statistics.median(clock)
            cpu = statistics.median(usage.cpu for usage in found) / 1000
            rows.append(
                [
                    operation.what,
                    operation.expected,
                    number(middle),
                    number(percentile(clock, 95)),
                    number(cpu),
                ]
            )
            section.at_most(operation.what, middle, operation.most, "ms")
            medians.append(middle)
        section.table(["", "expected", "median", "95 %", "CPU"], rows)
        one, _, many, *_ = medians
        gain = one / many * BATCH
        section.say(
            f"Publishing a message in a batch is {number(gain)} times faster than publishing it "
            "alone."
        )
        section.at_least(f"publish {BATCH} at once : one by one", gain, 10)
        known, new = compiled(session, times)
        section.say(
            "A filter is compiled once. A claim that finds nothing, with a filter of three "
            f"conditions, takes {number(new)} us of CPU if the filter is new and {number(known)} "
            f"us if the filter was used before: {number(new / known)} times less."
        )
        section.guard("a filter that is known is cheaper than a new one", known < new)


def operations(session: Session) -> list[Operation]:
    batch = (PAYLOADS[:BATCH], [HEADERS] * BATCH)

    def lease(_: int) -> tuple[object]:
        fill_pgq(session, "small", BATCH, HEADERS)
        return (session.value("select max(lease_id) from pgq.claim('small', n => %s)", BATCH),)

    def recipient(i: int) -> tuple[object]:
        return (f'{{"to": "entity {i % PEOPLE}"}}',)

    return [
        Operation(
            "publish one message",
            "1 to 2",
            2,
            "select pgq.publish('small', %s, %s)",
            lambda _: (PAYLOADS[0], HEADERS),
        ),
        Operation("claim one message", "0.5 to 1", 1, "select * from pgq.claim('plain')"),
        Operation(
            f"publish {BATCH} at once",
            "10 to 20",
            20,
            "select pgq.publish_batch('small', %s::jsonb[], %s::jsonb[])",
            lambda _: batch,
        ),
        Operation(f"acknowledge {BATCH} at once", "5 to 10", 10, "select pgq.ack(%s)", lease),
        Operation(
            "claim one for a recipient, a lane key, of a large queue",
            "below 1",
            1,
            "select * from pgq.claim('large', %s)",
            recipient,
        ),
        Operation(
            "claim one by priority, of a large queue",
            "1 to 2",
            2,
            "select * from pgq.claim('large')",
        ),
        Operation(
            "claim one by a filter on the payload, of a large queue",
            "2 to 5",
            5,
            "select * from pgq.claim('plain', %s)",
            lambda _: ('{"payload.order.amount": {"$gte": 900}}',),
        ),
    ]


def once(session: Session, operation: Operation, i: int) -> Usage:
    parameters = operation.parameters(i)
    rows: list[tuple[object, ...]] = []
    usage = measure(session, lambda: rows.extend(session.execute(operation.statement, *parameters)))
    if not rows:
        raise RuntimeError(f"no rows: {operation.what}")
    return usage


def compiled(session: Session, times: int) -> tuple[float, float]:
    """Return microseconds of CPU of a claim with a known filter, and with a new one."""
    session.execute("select pgq.create_queue('empty')")

    def claim(size: int) -> float:
        document = {"type": ["order", "refund"], "size": {"$gt": size}, "to": {"$like": "e%"}}
        text = json.dumps(document)
        return measure(
            session, lambda: session.execute("select * from pgq.claim('empty', %s)", text)
        ).cpu

    claim(0)
    known = statistics.median(claim(0) for _ in range(times))
    return known, statistics.median(claim(size) for size in range(1, times + 1))
