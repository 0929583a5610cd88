"""Cost of one message by batch size, beside Skytools PgQ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from bench.batches import CASES, whole
from bench.cluster import SETTINGS, Bench, Session
from bench.cost import Case, phases
from bench.measure import Usage, alternate, median
from bench.report import Section, number
from bench.systems import PAYLOADS, Pgq, System
from harness import debian
from harness.paths import ROOT
from pgq import embedded

MAJOR = "15"


@dataclass(frozen=True)
class Skytools:
    """A queue of PgQ. Its ticker, which makes batches, has its own connection."""

    queue: str
    ticker: Session
    name = "PgQ"
    #: Nothing is vacuumed: its tables are rotated.
    tables = ()

    def create(self, session: Session) -> None:
        session.execute("select pgq.create_queue(%s)", self.queue)
        session.execute("select pgq.register_consumer(%s, 'bench')", self.queue)
        # One tick for each published batch, and no tick without events.
        session.execute("select pgq.set_queue_config(%s, 'ticker_max_count', '1')", self.queue)

    def publish(self, session: Session, count: int, batch: int) -> None:
        for number_ in range(0, count, batch):
            if batch == 1:
                query = "select pgq.insert_event(%s, 'order', %s)"
                session.execute(query, self.queue, PAYLOADS[number_ % 1000])
            else:
                query = "select pgq.insert_event(%s, 'order', body) from unnest(%s::text[]) body"
                session.execute(query, self.queue, PAYLOADS[:batch])
            self.ticker.execute("select pgq.ticker(%s)", self.queue)

    def consume(self, session: Session, count: int, batch: int) -> None:
        left = count
        while left > 0:
            found = session.value("select pgq.next_batch(%s, 'bench')", self.queue)
            if found is None:
                raise RuntimeError(f"{left} messages are missing")
            left -= session.execute("select * from pgq.get_batch_events(%s)", found).rowcount
            session.execute("select pgq.finish_batch(%s)", found)


def run(bench: Bench, section: Section) -> None:
    section.say(
        "The measurement of [batches](#batches), on Debian's PostgreSQL 15, for which PgQ is "
        "packaged. Two servers have the same binaries and settings, one with pgq and one with "
        "PgQ. PgQ delivers whole batches to each consumer, in order: all events between two "
        "ticks. It has no claims of single messages, no leases, no filters and no priorities. "
        "Its ticker is called once for each published batch, and the ticker's CPU is counted as "
        "consuming. The rotation of tables is not counted for either system."
    )
    rows = []
    lines: dict[str, list[tuple[float, float]]] = {"pgq": [], "PgQ": []}
    with servers() as (ours, theirs, versions):
        section.say(versions)
        for position, case in enumerate(CASES):
            mine, peer = compare(bench, case, ours, theirs, f"orders{position}")
            for name, (publish, consume) in (("pgq", mine), ("PgQ", peer)):
                ratio = number(whole((publish, consume)) / whole(mine))
                lines[name].append((case.claim, whole((publish, consume))))
                figures = (publish.cpu, consume.cpu, publish.wal, consume.wal)
                cells = [number(figure) for figure in figures]
                rows.append([f"{case.claim:,}", name, *cells[:2], ratio, *cells[2:]])
    section.table(
        [
            "batch",
            "system",
            "publish CPU",
            "consume CPU",
            "both : pgq",
            "publish WAL",
            "consume WAL",
        ],
        rows,
    )
    title = "CPU of one message from publishing to its end, PostgreSQL 15"
    section.plot(title, "messages at once", "microseconds", lines, log="xy")


@contextmanager
def servers() -> Iterator[tuple[str, str, str]]:
    """Start both servers; yield their connection strings and a line with the versions."""
    package = debian.unpack("skytools", f"postgresql-{MAJOR}-pgq3")
    share = package / "usr/share/postgresql" / MAJOR
    with ExitStack() as stack:
        programs = stack.enter_context(debian.postgres(MAJOR))
        found = []
        for extensions, libraries in (
            (ROOT, []),
            (share, sorted(package.glob("usr/lib/postgresql/*/lib/*.so"))),
        ):
            server = embedded.Server(programs, extension_dir=extensions, settings=SETTINGS)
            stack.callback(server.close)
            for library in libraries:
                server.add_library(library)
            server.start()
            dsn = server.create_database("bench")
            with Session(dsn) as session:
                session.execute("create extension pgq")
                version = session.value("select extversion from pg_extension where extname = 'pgq'")
            found.append((dsn, version, server.version))
        (ours, our_version, program), (theirs, their_version, _) = found
        yield ours, theirs, f"{program}; pgq {our_version}, PgQ {their_version}."


def compare(
    bench: Bench, case: Case, ours: str, theirs: str, queue: str
) -> tuple[tuple[Usage, Usage], tuple[Usage, Usage]]:
    """Return the costs of publishing and consuming in pgq and in PgQ."""
    count = bench.pick(case.small, case.full)
    with Session(ours) as mine, Session(theirs) as session, Session(theirs) as ticker:
        pairs: list[tuple[Session, System, Session | None]] = [
            (mine, Pgq(queue), None),
            (session, Skytools(queue, ticker), ticker),
        ]
        for user, system, _ in pairs:
            system.create(user)
            for _ in range(3):
                system.publish(user, case.step, case.publish)
                system.consume(user, case.step, case.claim)
        results = alternate(
            bench.pick(2, 3),
            {
                system.name: partial(turn, *pair, case, count)
                for pair in pairs
                for system in pair[1:2]
            },
        )
    found = [
        (
            median([publish for publish, _ in results[name]]).per(count),
            median([consume for _, consume in results[name]]).per(count),
        )
        for name in ("pgq", "PgQ")
    ]
    return found[0], found[1]


def turn(
    session: Session, system: System, ticker: Session | None, case: Case, count: int
) -> tuple[Usage, Usage]:
    """Return the costs of one round; the ticker counts as consuming."""
    before = ticker.cpu() if ticker else 0.0
    publish, consume = phases(session, system, case, count)
    ticks = ticker.cpu() - before if ticker else 0.0
    return publish, replace(consume, cpu=consume.cpu + ticks)
