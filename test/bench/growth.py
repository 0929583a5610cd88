"""Growth of the tables while messages are published and consumed."""

from __future__ import annotations

from functools import partial

from bench.cluster import Bench, Session
from bench.measure import alternate
from bench.report import Section, number
from bench.systems import Pgmq, Pgq, System, size

LIMIT = 10
VISITS = 3


def run(bench: Bench, section: Section) -> None:
    section.say(
        "Messages are published and consumed in a steady loop, with autovacuum at its defaults. "
        "The figures are bytes per message by which the tables of ready, leased and scheduled "
        "messages grow, with their indexes. The log of pgq is not counted. pgmq has one table, "
        "which is also its log. synchronous_commit is off, which does not affect the size of a "
        "table."
    )
    section.say(
        "Autovacuum runs once a minute. Deleted rows remain until then, and their space is reused "
        f"afterwards. Therefore counting begins when autovacuum has processed each table {VISITS} "
        "times. The last columns are the sizes at that time."
    )
    rows = []
    for publish, claim, small, full in ((1000, 100, 12_000, 1_000_000), (1, 100, 400, 100_000)):
        count = bench.pick(small, full)
        with bench.database() as dsn, Session(dsn) as session:
            session.execute("set synchronous_commit = off")
            systems: list[System] = [Pgq("steady"), Pgmq("steady")]
            for system in systems:
                system.create(session)
            empty = {system.name: size(session, system) for system in systems}
            if bench.scale == "full":
                warm_up(session, systems, publish, claim)
            before = {system.name: size(session, system) for system in systems}
            alternate(
                bench.pick(4, 20),
                {
                    system.name: partial(
                        loop, session, system, count // bench.pick(4, 20), publish, claim
                    )
                    for system in systems
                },
            )
            grown = {
                system.name: (size(session, system) - before[system.name]) / count
                for system in systems
            }
        what = f"{publish}/{claim}, {count:,} messages"
        verdict = section.at_most(f"{what}: growth", grown["pgq"], LIMIT, "B")
        rows.append(
            [what, number(grown["pgq"]), verdict, number(grown["pgmq"])]
            + [f"{(before[system.name] - empty[system.name]) / 1e6:.1f} MB" for system in systems]
        )
    section.table(["publish/claim", "pgq", "", "pgmq", "pgq, before", "pgmq, before"], rows)


def warm_up(session: Session, systems: list[System], publish: int, claim: int) -> None:
    """Publish and consume until autovacuum has processed every table with deleted rows."""
    tables = [table for system in systems for table in system.tables]
    for _ in range(100_000):
        for system in systems:
            loop(session, system, 1000, publish, claim)
        if session.value(
            "select bool_and(autovacuum_count >= %s or n_tup_del = 0) and sum(n_tup_del) > 0 "
            "from pg_stat_all_tables where relid = any (%s::regclass[])",
            VISITS,
            tables,
        ):
            return
    raise RuntimeError("autovacuum does not run")


def loop(session: Session, system: System, count: int, publish: int, claim: int) -> None:
    step = max(publish, claim)
    for _ in range(count // step):
        system.publish(session, step, publish)
        system.consume(session, step, claim)
