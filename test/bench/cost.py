"""Cost of one message by batch size, beside pgmq."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import inf

from bench.cluster import Bench, Session
from bench.measure import Usage, alternate, measure, median
from bench.report import Section, number
from bench.systems import Chained, Pgmq, Pgq, System, analyze, clean


@dataclass(frozen=True)
class Case:
    """Sizes of the batches that are published and claimed; limits are ratios to pgmq, or bytes."""

    publish: int
    claim: int
    small: int
    full: int
    claim_cpu: float = inf  # with two calls, claim and ack
    chained_cpu: float = inf  # with one
    publish_cpu: float = inf
    claim_wal: float | None = None  # None: at most that of pgmq with the same record of a message

    @property
    def name(self) -> str:
        return f"{self.publish}/{self.claim}"

    @property
    def step(self) -> int:
        """Return how many messages let each statement run once or twice."""
        return max(self.publish, self.claim, 2)


CASES = [
    Case(1000, 1000, 3000, 50_000, 0.20, 0.18, 1.1, 10),
    Case(1000, 100, 3000, 50_000, 0.30, 0.25, 1.1, 30),
    Case(1, 100, 200, 10_000, 0.45, 0.35, 1.1, 150),
    Case(1, 10, 100, 5_000, 0.75, 0.50, 1.1, None),
    Case(1, 1, 50, 3_000, 0.80, 0.55, 1.1, None),
]


def run(bench: Bench, section: Section) -> None:
    section.say(
        "Backend CPU in microseconds and WAL in bytes for one message of 200 bytes with one "
        "header. Ratios are pgq : pgmq. All messages are published first. Then they are claimed "
        "and acknowledged (pgmq: read and deleted). Before each round the tables are vacuumed. "
        "They are analyzed when they are full."
    )
    section.points(
        "pgq records each ack in the audit log (who, when, which attempt). With journal => "
        "'failures' it records only failures.",
        '"One call" is a consumer that acknowledges a batch with the claim of the next batch '
        "(done => lease). pgmq has no such call.",
        "pgmq can end a message in two ways: archive keeps a record, delete does not. CPU is "
        "compared with delete. WAL of the smallest batches is compared with the way that keeps "
        "as much as pgq.",
        "WAL is that of the whole server, after a checkpoint before publishing. It includes "
        "full-page images, which weigh more if there are fewer messages.",
        '"In the kernel" is the part of the claim+ack CPU that the kernel uses for commits '
        "and for sending the messages. It is about the same for both systems.",
    )
    rows = []
    with bench.database() as dsn:
        for number_, case in enumerate(CASES):
            systems: list[System] = [
                Pgq(f"all{number_}"),
                Chained(f"chained{number_}"),
                Pgq(f"failures{number_}", journal="failures"),
                Pgmq(f"peer{number_}"),
                Pgmq(f"archive{number_}", end="archive"),
            ]
            found = compare(bench, dsn, case, systems, bench.pick(2, 9))
            rows += [row(section, case, name, found) for name in found]
    section.table(
        [
            "publish/claim",
            "system",
            "publish CPU",
            "ratio",
            "",
            "claim+ack CPU",
            "ratio",
            "",
            "in the kernel",
            "publish WAL",
            "claim+ack WAL",
            "",
        ],
        rows,
    )


def compare(
    bench: Bench, dsn: str, case: Case, systems: list[System], rounds: int
) -> dict[str, tuple[Usage, Usage]]:
    """Return what publishing and consuming cost in each of the systems."""
    count = bench.pick(case.small, case.full)
    with ExitStack() as stack:
        contestants = {}
        for system in systems:
            session = stack.enter_context(Session(dsn))
            system.create(session)
            for _ in range(3):
                system.publish(session, case.step, case.publish)
                system.consume(session, case.step, case.claim)
            contestants[system.name] = partial(phases, session, system, case, count)
        results = alternate(rounds, contestants)
    return {
        name: (
            median([publish for publish, _ in pairs]).per(count),
            median([consume for _, consume in pairs]).per(count),
        )
        for name, pairs in results.items()
    }


def phases(session: Session, system: System, case: Case, count: int) -> tuple[Usage, Usage]:
    """Return the costs of one round. Statements run before each part, so that plans are cached."""
    clean(session, system)
    session.execute("checkpoint")
    system.publish(session, case.step, case.publish)
    publish = measure(session, partial(system.publish, session, count, case.publish))
    analyze(session, system)
    system.consume(session, case.step, case.claim)
    consume = measure(session, partial(system.consume, session, count, case.claim))
    return publish, consume


def row(
    section: Section, case: Case, name: str, found: dict[str, tuple[Usage, Usage]]
) -> list[str]:
    """Return a row of the table; record the targets of pgq."""
    publish, consume = found[name]
    cpu = [number(publish.cpu), number(consume.cpu)]
    others = [number(consume.kernel), number(publish.wal), number(consume.wal)]
    if name.startswith("pgmq"):
        return [case.name, name, cpu[0], "", "", cpu[1], "", "", *others, ""]
    peer_publish, peer_consume = found["pgmq"]
    publish_ratio = publish.cpu / peer_publish.cpu
    claim_ratio = consume.cpu / peer_consume.cpu
    wal_limit = case.claim_wal
    if wal_limit is None:
        wal_limit = found["pgmq" if "failures" in name else "pgmq, archive"][1].wal
    what = f"{case.name}, {name}"
    verdicts = [
        section.at_most(f"{what}: publish CPU, ratio", publish_ratio, case.publish_cpu),
        section.at_most(
            f"{what}: claim+ack CPU, ratio",
            claim_ratio,
            case.chained_cpu if "one call" in name else case.claim_cpu,
        ),
        section.at_most(f"{what}: claim+ack WAL", consume.wal, wal_limit, "B"),
    ]
    if case.name == "1000/1000":
        section.guard(f"{what}: claims cost more than those of pgmq", claim_ratio < 1)
    return [
        case.name,
        name,
        cpu[0],
        number(publish_ratio),
        verdicts[0],
        cpu[1],
        number(claim_ratio),
        verdicts[1],
        *others,
        verdicts[2],
    ]
