"""Cost of publishing to many queues, beside many subscriptions, and into lanes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from bench.cluster import Bench, Session
from bench.measure import Usage, alternate, measure, median
from bench.report import Section, number
from bench.systems import HEADERS, PAYLOADS

BATCHES = (1, 10, 100, 1000)


def run(bench: Bench, section: Section) -> None:
    section.say("Backend CPU of publishing, in microseconds per message:")
    section.points(
        "To many queues: 10 subscriptions without a filter, and 100 subscriptions with a "
        "filter, of which 10 match.",
        "Beside many subscriptions: a topic that one of many subscriptions receives. Half of "
        "the subscriptions have wildcards. The first message of a topic and later messages are "
        "measured, and compared with a queue without subscriptions.",
        "Beside many filters: a message that matches one of many filtered subscriptions of its "
        "topic. The filters test equality, a prefix, a range or existence, of one to three keys. "
        "The cost of adding such a subscription is measured, too.",
        "Into lanes: a queue without lanes, pgmq, and a queue with a hashed lane key whose "
        "value differs in every message.",
    )
    rows: list[list[str]] = []
    to_many(bench, section, rows)
    past_many(bench, section, rows)
    past_filters(bench, section, rows)
    into_lanes(bench, section, rows)
    section.table(["publish", "CPU", "ratio", ""], rows)


def to_many(bench: Bench, section: Section, rows: list[list[str]]) -> None:
    with bench.database() as dsn, Session(dsn) as session:
        with session.conn.transaction():
            for i in range(10):
                session.execute("select pgq.subscribe(%s, 'plain')", f"plain{i}")
            for i in range(100):
                kind = "order" if i % 10 == 0 else f"other{i}"
                document = f'{{"type": "{kind}"}}'
                session.execute("select pgq.subscribe(%s, 'picky', %s)", f"picky{i}", document)
        for batch, count in ((1, bench.pick(50, 2000)), (100, bench.pick(1000, 20_000))):
            contestants = {
                topic: partial(publish, session, [topic], count, batch)
                for topic in ("plain", "picky")
            }
            alternate(1, contestants)
            found = alternate(bench.pick(2, 5), contestants)
            plain, picky = median(found["plain"]).cpu, median(found["picky"]).cpu
            what = f"10 of 100 subscriptions, by {batch}"
            verdict = section.at_most(f"{what}: ratio to 10 queues", picky / plain, 3)
            rows.append([f"10 queues, by {batch}", number(plain), "", ""])
            rows.append([what, number(picky), number(picky / plain), verdict])


def past_many(bench: Bench, section: Section, rows: list[list[str]]) -> None:
    topics = bench.pick(200, 10_000)
    subscriptions = bench.pick(100, 1000)
    with ExitStack() as stack:
        single = stack.enter_context(Session(stack.enter_context(bench.database())))
        many = stack.enter_context(Session(stack.enter_context(bench.database())))
        single.execute("select pgq.create_queue('single')")
        many.execute("select pgq.subscribe('one', 'wanted.*.topic')")
        with many.conn.transaction():
            for i in range(1, subscriptions):
                pattern = f"unwanted.{i}.topic" if i % 2 else f"unwanted.{i}.*.#"
                many.execute("select pgq.subscribe(%s, %s)", f"subscriber{i}", pattern)
        names = [f"wanted.{i}.topic" for i in range(topics)]
        publish(single, ["single"], 20, 1)
        publish(many, names[:20], 20, 1)
        first = publish(many, names[20:], topics - 20, 1)
        many.execute("analyze pgq.route, pgq.binding, pgq.queue")
        found = alternate(
            bench.pick(2, 5),
            {
                "single": partial(publish, single, ["single"], topics, 1),
                "many": partial(publish, many, names, topics, 1),
            },
        )
    alone, among = median(found["single"]).cpu, median(found["many"]).cpu
    what = f"one of {topics:,} topics, {subscriptions:,} subscriptions"
    verdict = section.at_most(f"{what}: ratio to one queue", among / alone, 2)
    rows.append(["one queue", number(alone), "", ""])
    rows.append([f"{what}, first time", number(first.cpu), number(first.cpu / alone), ""])
    rows.append([what, number(among), number(among / alone), verdict])


def past_filters(bench: Bench, section: Section, rows: list[list[str]]) -> None:
    """Publish messages that each match exactly one filter."""
    few, many = 100, bench.pick(400, 10_000)
    found: dict[int, Usage] = {}
    for filters in (few, many):
        with bench.database() as dsn, Session(dsn) as session:

            def subscribe(session: Session = session, filters: int = filters) -> None:
                with session.conn.transaction():
                    for i in range(filters):
                        document = json.dumps(standing(i)[0])
                        session.execute("select pgq.subscribe(%s, 't', %s)", f"s{i}", document)

            added = measure(session, subscribe).per(filters)
            session.execute("analyze pgq.binding, pgq.anchor, pgq.route, pgq.queue")

            def work(session: Session = session, filters: int = filters) -> None:
                for i in range(filters):
                    headers = json.dumps(standing(i * 7 % filters)[1])
                    session.execute("select pgq.publish('t', %s, %s)", PAYLOADS[i % 1000], headers)

            work()
            rounds = [measure(session, work).per(filters) for _ in range(bench.pick(1, 3))]
            found[filters] = median(rounds)
    ratio = found[many].cpu / found[few].cpu
    what = f"one of {many:,} filters matches"
    verdict = section.at_most(f"{what}: ratio to one of {few}", ratio, 3)
    rows.append([f"one of {few} filters matches", number(found[few].cpu), "", ""])
    rows.append([what, number(found[many].cpu), number(ratio), verdict])
    verdict = section.at_most(f"a new one beside {many:,} filters", added.cpu / 1000, 5, "ms")
    rows.append([f"subscribe, beside {many:,} filters", number(added.cpu), "", verdict])


def standing(i: int) -> tuple[dict[str, object], dict[str, object]]:
    """Return the i-th filter, and headers that no other filter matches."""
    match i % 4:
        case 0:
            document: dict[str, object] = {"customer": f"c{i}", "type": "order"}
            headers: dict[str, object] = {"customer": f"c{i}"}
        case 1:
            document = {"path": [{"prefix": f"/r/{i}/"}], "type": "order", "region": ["eu", "us"]}
            headers = {"path": f"/r/{i}/x", "region": "eu"}
        case 2:
            document = {"type": "order", "amount": {"$gte": i * 10, "$lt": i * 10 + 10}}
            headers = {"amount": i * 10 + 5}
        case _:
            document = {f"flag{i}": {"$exists": True}}
            headers = {f"flag{i}": 1}
    return document, {"type": "order", **headers}


def into_lanes(bench: Bench, section: Section, rows: list[list[str]]) -> None:
    """Publish messages whose values of a hashed lane key all differ."""
    with bench.database() as dsn, Session(dsn) as session:
        session.execute("select pgq.create_queue('plain')")
        session.execute("select pgq.create_queue('hashed', lane_keys => '{#customer}')")
        session.execute("select pgmq.create('plain')")
        for batch in BATCHES:
            count = bench.pick(max(batch, 50), max(20 * batch, 1000))
            contestants: dict[str, Callable[[], Usage]] = {
                name: partial(publish_each, session, name, count, batch)
                for name in ("plain", "hashed", "pgmq")
            }
            alternate(1, contestants)
            found = {
                name: median(usages).cpu
                for name, usages in alternate(bench.pick(2, 5), contestants).items()
            }
            ratio = found["hashed"] / found["plain"]
            what = f"a hashed lane key, by {batch}"
            verdict = section.at_most(f"{what}: ratio to no lanes", ratio, 1.5)
            rows.append([f"no lanes, by {batch}", number(found["plain"]), "", ""])
            other = number(found["pgmq"] / found["plain"])
            rows.append([f"pgmq, by {batch}", number(found["pgmq"]), other, ""])
            rows.append([what, number(found["hashed"]), number(ratio), verdict])


def publish_each(session: Session, queue: str, count: int, batch: int) -> Usage:
    """Publish messages with different values; return the cost of a message."""

    def work() -> None:
        for first in range(0, count, batch):
            headers = [f'{{"customer": "c{i}"}}' for i in range(first, first + batch)]
            if queue == "pgmq" and batch == 1:
                query = "select pgmq.send('plain', %s::jsonb, %s::jsonb)"
                session.execute(query, PAYLOADS[first % 1000], headers[0])
            elif queue == "pgmq":
                query = "select pgmq.send_batch('plain', %s::jsonb[], %s::jsonb[])"
                session.execute(query, PAYLOADS[:batch], headers)
            elif batch == 1:
                query = "select pgq.publish(%s, %s, %s)"
                session.execute(query, queue, PAYLOADS[first % 1000], headers[0])
            else:
                query = "select pgq.publish_batch(%s, %s::jsonb[], %s::jsonb[])"
                session.execute(query, queue, PAYLOADS[:batch], headers)

    return measure(session, work).per(count)


def publish(session: Session, topics: list[str], count: int, batch: int) -> Usage:
    """Publish to the topics in turn; return the cost of a message."""

    def work() -> None:
        for i in range(count // batch):
            topic = topics[i % len(topics)]
            if batch == 1:
                query = "select pgq.publish(%s, %s, %s)"
                session.execute(query, topic, PAYLOADS[i % 1000], HEADERS)
            else:
                query = "select pgq.publish_batch(%s, %s::jsonb[], %s::jsonb[])"
                session.execute(query, topic, PAYLOADS[:batch], [HEADERS] * batch)

    return measure(session, work).per(count)
