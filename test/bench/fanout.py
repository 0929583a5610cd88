"""What it costs to publish to many, and past many."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from bench.cluster import Bench, Session
from bench.measure import Usage, alternate, measure, median
from bench.report import Section, number
from bench.systems import HEADERS, PAYLOADS


def run(bench: Bench, section: Section) -> None:
    section.say(
        "Backend CPU of publishing, in microseconds a message. To many: 10 subscriptions without "
        "a filter, and 100 with one, of which 10 match. Past many: one queue alone; and a topic "
        "among many that one of many subscriptions receives, half of them with wildcards, when "
        "the topic is published to for the first time and after that."
    )
    rows: list[list[str]] = []
    to_many(bench, section, rows)
    past_many(bench, section, rows)
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
