"""Where to filter: in the client, in the server, in the server with lanes, or in pgmq."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from functools import partial

import psycopg

from bench.cluster import Bench, Session
from bench.measure import alternate
from bench.report import Section, number

RATES = (1, 10, 50, 90, 100)
BATCH = 100
WANTED = "refund"
PLACES = ("client", "server, no lanes", "server, lanes", "server, hashed lanes", "pgmq")
LANE_KEYS = {"server, lanes": ["type"], "server, hashed lanes": ["#type"]}
# Matches are spread evenly: every hundred messages contain as many as the match rate says.
KIND = "case when i * 37 %% 100 < %s then 'refund' else 'order' end"
FILL = f"""
insert into pgq.message (topic, headers, payload)
select 'deals', jsonb_build_object('type', {KIND}),
       jsonb_build_object('number', i, 'text', repeat('x', 170))
from generate_series(1, %s) i
"""
# pgmq tests its condition on the message.
FILL_PGMQ = f"""
select count(*) from pgmq.send_batch('deals', array(
    select jsonb_build_object('type', {KIND}, 'number', i, 'text', repeat('x', 170))
    from generate_series(1, %s) i))
"""


@dataclass
class Bill:
    """The cost of getting all matches."""

    matches: int = 0
    fetched: int = 0
    received: int = 0
    database: float = 0.0
    client: float = 0.0
    latencies: tuple[float, ...] = ()

    def cells(self) -> list[str]:
        total = (self.database + self.client) / self.matches
        return [
            number(self.fetched / self.matches),
            number(self.received / self.matches),
            number(self.database / self.matches),
            number(self.client / self.matches),
            number(total),
            number(1000 * statistics.median(self.latencies)),
        ]


def run(bench: Bench, section: Section) -> None:
    count = bench.pick(1000, 20_000)
    section.say(
        f"All matches among {count:,} messages are claimed by {BATCH} and acknowledged. The "
        "figures are per match: messages fetched, bytes received, and microseconds of backend "
        "CPU, of client CPU and of both. The last column is the median time of a claim in "
        "milliseconds. A client that filters acknowledges the messages that it does not want. "
        "This is the cheapest way, but right only if no other consumer wants them. pgmq reads "
        "with a condition, and deletes."
    )
    rows = []
    totals: dict[str, list[float]] = {place: [] for place in PLACES}
    for rate in RATES:
        with bench.database() as dsn:
            bills = at_rate(bench, dsn, rate, count)
            for place, bill in bills.items():
                totals[place].append((bill.database + bill.client) / bill.matches)
                rows.append([f"{rate} %", place, *bill.cells()])
    section.table(
        [
            "match",
            "filter",
            "fetched",
            "bytes",
            "database CPU",
            "client CPU",
            "CPU",
            "claim, ms",
        ],
        rows,
    )
    lines = {place: list(zip(RATES, totals[place], strict=True)) for place in PLACES}
    title = "CPU of database and client per match, by match rate"
    section.plot(title, "match rate, %", "microseconds", lines, log="xy")
    for rate, client, server in zip(RATES, totals["client"], totals[PLACES[1]], strict=True):
        if rate < 100:
            section.at_most(f"{rate} % match: server without lanes : client", server / client, 1)
    for place in PLACES[1:-1]:
        section.say(f"{place}: {break_even(totals['client'], totals[place])}.")


def at_rate(bench: Bench, dsn: str, rate: int, count: int) -> dict[str, Bill]:
    def contestant(place: str) -> Bill:
        wanted = None if place == "client" else WANTED
        if place == "pgmq":
            return from_pgmq(dsn, rate, count)
        with Session(dsn, parse=True) as session:
            keys = LANE_KEYS.get(place)
            session.execute("select pgq.create_queue('deals', lane_keys => %s)", keys)
            for size in (300, 300, count):  # the first two are to warm up
                session.execute(FILL, rate, size)
                bill = fetch(session, wanted)
            session.execute("select pgq.drop_queue('deals', force => true)")
        return bill

    results = alternate(bench.pick(1, 5), {place: partial(contestant, place) for place in PLACES})
    return {place: middle(bills) for place, bills in results.items()}


def fetch(session: Session, wanted: str | None) -> Bill:
    """Claim until the queue is empty. Without a filter in the claim the client tests messages."""
    bill = Bill()
    document = None if wanted is None else json.dumps({"type": wanted})
    latencies = []
    database = session.cpu()
    while True:
        started, client = time.perf_counter(), time.process_time()
        cursor = session.execute("select * from pgq.claim('deals', %s, %s)", document, BATCH)
        latencies.append(time.perf_counter() - started)
        rows = cursor.fetchall()
        matches = rows if wanted else [row for row in rows if row[5].get("type") == WANTED]
        if rows:
            session.execute("select pgq.ack(%s)", rows[0][0])
        bill.client += (time.process_time() - client) * 1e6
        if not rows:
            break
        bill.matches += len(matches)
        bill.fetched += len(rows)
        bill.received += data_bytes(cursor)
    bill.database = session.cpu() - database
    bill.latencies = tuple(latencies)
    return bill


def from_pgmq(dsn: str, rate: int, count: int) -> Bill:
    """Read and delete matches until none is left."""
    condition = json.dumps({"type": WANTED})
    with Session(dsn, parse=True) as session:
        session.execute("select pgmq.create('deals')")
        for size in (300, count):  # the first is to warm up
            bill = Bill()
            latencies = []
            session.execute(FILL_PGMQ, rate, size)
            database = session.cpu()
            while True:
                started, client = time.perf_counter(), time.process_time()
                cursor = session.execute(
                    "select * from pgmq.read('deals', 3600, %s, %s)", BATCH, condition
                )
                latencies.append(time.perf_counter() - started)
                ids = [row[0] for row in cursor]
                if ids:
                    session.execute("select pgmq.delete('deals', %s::bigint[])", ids)
                bill.client += (time.process_time() - client) * 1e6
                if not ids:
                    break
                bill.matches += len(ids)
                bill.fetched += len(ids)
                bill.received += data_bytes(cursor)
            bill.database = session.cpu() - database
            bill.latencies = tuple(latencies)
            session.execute("select pgmq.purge_queue('deals')")
        session.execute("select pgmq.drop_queue('deals')")
    return bill


def data_bytes(cursor: psycopg.Cursor[tuple[object, ...]]) -> int:
    """Return the size of the rows in the network protocol."""
    result = cursor.pgresult
    if result is None:
        return 0
    return sum(
        7 + sum(4 + len(result.get_value(row, column) or b"") for column in range(result.nfields))
        for row in range(result.ntuples)
    )


def middle(bills: list[Bill]) -> Bill:
    """Return the bill with the median CPU."""
    ranked = sorted(bills, key=lambda bill: bill.database + bill.client)
    return ranked[len(ranked) // 2]


def break_even(client: list[float], server: list[float]) -> str:
    """Return the match rate above which filtering in the client is cheaper, interpolated."""
    gains = [mine - theirs for mine, theirs in zip(client, server, strict=True)]
    if min(gains) > 0:
        return f"cheaper than the client at all rates measured ({RATES[0]} % to {RATES[-1]} %)"
    if max(gains) <= 0:
        return "more expensive than the client at all rates measured"
    for i in range(len(RATES) - 1):
        if gains[i] > 0 >= gains[i + 1]:
            share = gains[i] / (gains[i] - gains[i + 1])
            rate = RATES[i] + share * (RATES[i + 1] - RATES[i])
            return f"cheaper than the client below a match rate of about {rate:.0f} %"
    return "no clear break-even"
