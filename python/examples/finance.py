"""Financial transactions: durable with the books, large sums first, an audit trail.

A transfer and the message about it are one transaction. Who settles acknowledges in the transaction
that settles, so each transfer is settled once, whatever crashes. A relay writes the archive that
auditors read; it is a queue of its own, so an archive that is away holds up nobody.
"""

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

import pgq
import pgq.embedded
from pgq.relay import Relay, open_destination


def transfer(conn: psycopg.Connection, account: str, amount: int) -> None:
    """Move money and say so, both or neither."""
    with conn.transaction():
        conn.execute("update account set cents = cents - %s where name = %s", (amount, account))
        pgq.Client(conn).publish(
            "payments.transfer",
            {"account": account, "cents": amount},
            priority=10 if amount >= 1_000_000 else 0,
            group_key=account,  # the transfers of one account stay in order
        )


def settle(conn: psycopg.Connection) -> None:
    """Settle one transfer."""
    (message,) = pgq.Client(conn).claim("settlement")
    with conn.transaction():
        entry = (message.id, message.payload["cents"])
        conn.execute("insert into settled values (%s, %s)", entry)
        pgq.Client(conn).ack(message.lease_id)
    print("settled", message.payload)


with (
    TemporaryDirectory() as place,
    pgq.embedded.start() as server,
    psycopg.connect(server.dsn(), autocommit=True) as conn,
    pgq.connect(server.dsn()) as client,
):
    conn.execute("create extension pgq")
    conn.execute("create table account (name text, cents bigint check (cents >= 0))")
    conn.execute("create table settled (message_id bigint primary key, cents bigint)")
    conn.execute("insert into account values ('ada', 5000), ('grace', 9000000)")
    client.subscribe("settlement", "payments.#")
    client.subscribe("audit", "payments.#")

    transfer(conn, "ada", 1000)
    transfer(conn, "grace", 2_000_000)
    try:
        transfer(conn, "ada", 999_999)
    except psycopg.errors.CheckViolation:
        print("too much: neither booked nor published")
    settle(conn)
    settle(conn)

    Relay(client, "audit", open_destination(f"file://{place}", queue="audit"), drain=True).run()
    (file,) = Path(place).rglob("*.jsonl.gz")
    for line in gzip.decompress(file.read_bytes()).splitlines():
        record = json.loads(line)
        print("archived", record["payload"])
    events = [row.event for row in client.history(record["id"])]
    print("history of the last one:", ", ".join(events))

# Prints:
# too much: neither booked nor published
# settled {'cents': 2000000, 'account': 'grace'}
# settled {'cents': 1000, 'account': 'ada'}
# archived {'cents': 2000000, 'account': 'grace'}
# archived {'cents': 1000, 'account': 'ada'}
# history of the last one: publish, claim, ack, claim, ack
