"""Order processing: each service gets what is meant for it, later work waits, failures are kept.

The order's state is in the database; what happens next is in queues. A service that fails tries
again by itself; what it cannot do ends as a dead letter, which an operator inspects and replays.
"""

from datetime import timedelta

import psycopg

import pgq
import pgq.embedded


def bill(message: pgq.Message) -> None:
    """Charge a card, if the bank knows it."""
    if message.payload["card"] not in cards:
        raise pgq.Reject(f"unknown card {message.payload['card']}")
    print("billing: order", message.payload["order"])


def ship(message: pgq.Message) -> None:
    """Send a parcel; the label printer needs a second try."""
    if message.attempt == 1:
        raise pgq.Retry("the printer is out of paper", delay=timedelta(0))
    print("shipping: order", message.payload["order"], "at attempt", message.attempt)


cards = {"4000"}
with (
    pgq.embedded.start() as server,
    psycopg.connect(server.dsn(), autocommit=True) as conn,
    pgq.connect(server.dsn()) as client,
):
    conn.execute("create extension pgq")
    conn.execute("create table orders (id int primary key, state text)")
    # Each service receives what is addressed to it, and what is addressed to all.
    for service in ("billing", "shipping"):
        client.subscribe(service, "order.*", {"msg.recipient": {"$in": [service, None]}})

    with conn.transaction():
        conn.execute("insert into orders values (1, 'new'), (2, 'new')")
        shop = pgq.Client(conn)
        shop.publish("order.placed", {"order": 1, "card": "4000"}, recipient="billing")
        shop.publish("order.placed", {"order": 2, "card": "4711"}, recipient="billing")
        shop.publish("order.packed", {"order": 1}, recipient="shipping")
        # To be asked for a review, in a week.
        shop.publish("order.review", {"order": 1}, delay=timedelta(days=7))

    pgq.Consumer(client, "billing", bill, drain=True).run()
    pgq.Consumer(client, "shipping", ship, drain=True).run()
    for row in conn.execute("select payload ->> 'order', error from pgq.dead_letter"):
        print("dead letter: order", *row)

    cards.add("4711")  # the customer has called
    print("replayed:", client.replay("billing"))
    pgq.Consumer(client, "billing", bill, drain=True).run()

    # Many at once, in one statement.
    client.publish_batch("order.packed", [{"order": n} for n in range(3, 1003)])
    waiting = {row.queue: (row.ready, row.scheduled) for row in client.queue_stats()}
    print("ready and scheduled:", waiting)

# Prints:
# billing: order 1
# shipping: order 1 at attempt 2
# dead letter: order 2 unknown card 4711
# replayed: 1
# billing: order 2
# ready and scheduled: {'billing': (1000, 1), 'shipping': (1000, 1)}
