"""Enterprise integration: several systems, one log, each copy on its own way.

A legacy system sends lines of text; the gateway makes documents of them. The warehouse has a
database of its own, to which a relay forwards; compliance wants everything in files. One of the
destinations being away shows in the statistics, and holds up nobody else.
"""

import threading
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

import pgq
import pgq.embedded
from pgq.relay import Relay, open_destination


def translate(message: pgq.Message) -> None:
    """Turn a line of the legacy system into a document."""
    kind, _, rest = message.payload.partition("|")
    item, amount = rest.split("|")
    gateway.publish(
        f"stock.{kind.lower()}",
        {"item": item, "amount": int(amount)},
        headers={"serializer": "json", "source": "legacy"},
        correlation_id=str(message.id),
    )


def stats(queue: str) -> str:
    """Say how a queue is doing."""
    (row,) = [row for row in gateway.queue_stats() if row.queue == queue]
    return f"{queue}: {row.ready + row.leased} waiting, circuit {row.relay}"


with (
    TemporaryDirectory() as place,
    pgq.embedded.start() as server,
    psycopg.connect(server.dsn(), autocommit=True) as conn,
):
    conn.execute("create database warehouse")
    here, there = server.dsn(), server.dsn("warehouse")
    for dsn in (here, there):
        with psycopg.connect(dsn) as install:
            install.execute("create extension pgq")
    with pgq.connect(here) as gateway, pgq.connect(there) as warehouse:
        gateway.create_queue("legacy")
        gateway.subscribe("to-warehouse", "stock.#")
        gateway.subscribe("compliance", "#")
        warehouse.subscribe("stock", "stock.#")

        gateway.publish_batch("legacy", ["SOLD|bolt|3", "SOLD|nut|5", "LOST|nut|1"])
        pgq.Consumer(gateway, "legacy", translate, drain=True).run()

        # Somebody has put a file where the archive should be.
        archive = Path(place) / "archive"
        archive.touch()
        breaker = pgq.CircuitBreaker(failures=1, reset=timedelta(seconds=0.5))
        files = open_destination(f"file://{archive}?compression=none", queue="compliance")
        compliance = Relay(gateway, "compliance", files, breaker=breaker, drain=True)
        running = threading.Thread(target=compliance.run)
        running.start()
        while "circuit open" not in (state := stats("compliance")):
            running.join(0.01)
        print(state)

        target = psycopg.conninfo.conninfo_to_dict(there)
        url = "postgresql:///{dbname}?host={host}&port={port}&user={user}".format(**target)
        Relay(gateway, "to-warehouse", open_destination(url), drain=True).run()
        for message in warehouse.claim("stock", n=10):
            print("warehouse:", message.topic, message.payload, message.headers["source"])

        archive.unlink()
        running.join()
        lines = [file.read_text().splitlines() for file in archive.rglob("*.jsonl")]
        print(sum(map(len, lines)), "messages archived")
        print(stats("compliance"))

# Prints:
# compliance: 6 waiting, circuit open
# warehouse: stock.sold {'item': 'bolt', 'amount': 3} legacy
# warehouse: stock.sold {'item': 'nut', 'amount': 5} legacy
# warehouse: stock.lost {'item': 'nut', 'amount': 1} legacy
# 6 messages archived
# compliance: 0 waiting, circuit None
