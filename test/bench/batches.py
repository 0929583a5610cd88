"""What a message costs by the size of the batches, in pgq, in pgmq and by the claims of others."""

from __future__ import annotations

from bench.cluster import Bench
from bench.cost import Case, compare
from bench.measure import Usage
from bench.report import Section, number
from bench.seeds import SEEDS
from bench.systems import Pgmq, Pgq, System

CASES = [
    Case(1, 1, 50, 2_000),
    Case(10, 10, 200, 10_000),
    Case(100, 100, 1000, 30_000),
    Case(1000, 1000, 3000, 50_000),
]


def run(bench: Bench, section: Section) -> None:
    section.say(
        "Backend CPU in microseconds and WAL in bytes for one message of 200 bytes, published, "
        "claimed and ended by so many at once, all as in [cost](#cost). pgmq reads and deletes. "
        "The others are three designs. PeeGeeQ's two claim statements are as its document prints "
        "them, without a filter; their tables are made of the columns that they name, with the "
        "index that suits them best; the native queue deletes what is done, the outbox marks it. "
        "SmartMessage's table and indexes are as its document prints them, without the notifying "
        "trigger; what it prints to get messages locks nothing, and is said here with the columns "
        "of its own index; marking is one UPDATE of a batch where its sketch has one for each "
        "message. MiniQ prints neither table nor claim: a table of the columns that it reads, and "
        "a pop of one message, so it has no larger batches. None of these statements has retries, "
        "dead letters, lanes, subscriptions or a log, and nobody takes back what a dead worker "
        "held: one by one they are cheaper, and do less."
    )
    rows = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for case in CASES:
        with bench.database() as dsn:
            systems: list[System] = [Pgq("orders"), Pgmq("orders"), *SEEDS]
            if case.claim > 1:
                systems = [system for system in systems if system.name != "MiniQ"]
            found = compare(bench, dsn, case, systems, rounds=bench.pick(2, 3))
        mine = whole(found["pgq"])
        for name, (publish, consume) in found.items():
            ratio = whole(found[name]) / mine
            lines.setdefault(name, []).append((case.claim, whole(found[name])))
            rows.append(
                [
                    *(f"{case.claim:,}", name, number(publish.cpu), number(consume.cpu)),
                    *(number(ratio), number(publish.wal), number(consume.wal)),
                ]
            )
            if case.claim == CASES[-1].claim and name != "pgq":
                what = f"claims of {case.claim} cost less in {name} than in pgq"
                section.guard(what, consume.cpu > found["pgq"][1].cpu)
    section.table(
        [
            *("batch", "system", "publish CPU", "claim+end CPU", "both : pgq", "publish WAL"),
            "claim+end WAL",
        ],
        rows,
    )
    title = "CPU of one message from publishing to its end"
    section.plot(title, "messages at once", "microseconds", lines, log="xy")


def whole(usages: tuple[Usage, Usage]) -> float:
    return usages[0].cpu + usages[1].cpu
