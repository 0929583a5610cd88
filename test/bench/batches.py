"""Cost of one message by batch size: pgq, pgmq, and the claim statements of other designs."""

from __future__ import annotations

import json
from functools import partial

from bench.cluster import Bench, Session
from bench.cost import Case, compare
from bench.measure import Usage, alternate, measure, median
from bench.report import Section, number
from bench.seeds import NATIVE, SEEDS
from bench.systems import PAYLOADS, Chained, Pgmq, Pgq, System

# The limit of publishing is the ratio to a bare INSERT into a queue table.
CASES = [
    Case(1, 1, 50, 2_000, publish_cpu=1.3),
    Case(10, 10, 200, 10_000, publish_cpu=1.4),
    Case(100, 100, 1000, 30_000, publish_cpu=1.2),
    Case(1000, 1000, 3000, 50_000, publish_cpu=1.1),
]


def run(bench: Bench, section: Section) -> None:
    section.say(
        "Backend CPU in microseconds and WAL in bytes for one message of 200 bytes. Messages "
        "are published, claimed and ended in batches of this size, as in [cost](#cost). pgmq "
        "reads and deletes."
    )
    section.say(
        "The other systems are the claim statements of three designs. None of them has retries, "
        "dead letters, lanes, subscriptions or a log, and none recovers the messages of a crashed "
        "worker. For single messages they are cheaper than pgq, and they do less."
    )
    section.points(
        "PeeGeeQ: the two claim statements of its document, without a filter. The tables have "
        "the columns that the statements name, and the best index for them. The native queue "
        "deletes finished messages; the outbox marks them.",
        "SmartMessage: the table and indexes of its document, without the notifying trigger. "
        "Its statement that gets messages takes no locks; here it uses the columns of the "
        "document's index. One UPDATE marks a batch; the document has one UPDATE per message.",
        "MiniQ: its document contains neither a table nor a claim. This is a table with the "
        "columns that the document reads, and a statement that takes one message. It has no "
        "larger batches.",
    )
    rows = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for case in CASES:
        with bench.database() as dsn:
            systems: list[System] = [Pgq("orders"), Chained("jobs"), Pgmq("orders"), *SEEDS]
            if case.claim > 1:
                systems = [system for system in systems if system.name != "MiniQ"]
            found = compare(bench, dsn, case, systems, rounds=bench.pick(2, 3))
        mine = whole(found["pgq"])
        for name, (publish, consume) in found.items():
            ratio = whole(found[name]) / mine
            lines.setdefault(name, []).append((case.claim, whole(found[name])))
            rows.append(
                [
                    f"{case.claim:,}",
                    name,
                    number(publish.cpu),
                    number(consume.cpu),
                    number(ratio),
                    number(publish.wal),
                    number(consume.wal),
                ]
            )
            if case.claim == CASES[-1].claim and not name.startswith("pgq"):
                what = f"claims of {case.claim} cost less in {name} than in pgq"
                section.guard(what, consume.cpu > found["pgq"][1].cpu)
        section.at_most(
            f"{case.claim}: publish, pgq : bare INSERT ({NATIVE.name})",
            found["pgq"][0].cpu / found[NATIVE.name][0].cpu,
            case.publish_cpu,
        )
        if case.claim <= 10:
            cheapest = min(whole(usages) for name, usages in found.items() if name[:3] != "pgq")
            section.at_most(
                f"{case.claim}: publish, claim and end, pgq : the cheapest other",
                mine / cheapest,
                1,
            )
    section.table(
        [
            "batch",
            "system",
            "publish CPU",
            "claim+end CPU",
            "both : pgq",
            "publish WAL",
            "claim+end WAL",
        ],
        rows,
    )
    title = "CPU of one message from publishing to its end"
    section.plot(title, "messages at once", "microseconds", lines, log="xy")
    varied(bench, section)


def varied(bench: Bench, section: Section) -> None:
    """Publish messages with three varying headers, in pgq and in pgmq."""
    rows = []
    for batch in (1000, 100):
        count = bench.pick(2 * batch, 50_000)
        with bench.database() as dsn, Session(dsn) as session:
            session.execute("select pgq.create_queue('varied'), pgmq.create('varied')")
            contestants = {
                name: partial(publish_varied, session, call, count, batch)
                for name, call in (("pgq", "pgq.publish_batch"), ("pgmq", "pgmq.send_batch"))
            }
            alternate(1, contestants)  # to warm up
            found = alternate(bench.pick(1, 5), contestants)
        usages = {name: median(costs).per(count) for name, costs in found.items()}
        ratio = usages["pgq"].cpu / usages["pgmq"].cpu
        verdict = section.at_most(f"{batch}: publish with three varied headers", ratio, 1.1)
        for name, usage in usages.items():
            cells = [number(ratio), verdict] if name == "pgq" else ["", ""]
            rows.append([f"{batch:,}", name, number(usage.cpu), number(usage.wal), *cells])
    section.say(
        "Publishing messages with three headers whose values differ from message to message:"
    )
    section.table(["batch", "system", "publish CPU", "publish WAL", "ratio", ""], rows)


def publish_varied(session: Session, call: str, count: int, batch: int) -> Usage:
    headers = [
        json.dumps({"type": f"t{i % 7}", "tenant": i % 113, "id": f"{i:x}"}) for i in range(batch)
    ]

    def work() -> None:
        for _ in range(count // batch):
            session.execute(
                f"select {call}('varied', %s::jsonb[], %s::jsonb[])", PAYLOADS[:batch], headers
            )

    return measure(session, work)


def whole(usages: tuple[Usage, Usage]) -> float:
    return usages[0].cpu + usages[1].cpu
