"""``pgq relay`` and ``pgq relays``."""

from __future__ import annotations

import logging

from pgq._sync.client_pooled import connect
from pgq.cli._command import USAGE, Commands, Failure, Options, client, duration, positive
from pgq.cli._output import Output, say
from pgq.transports.breaker import CircuitBreaker

__all__ = ["add"]

_COLUMNS = ["queue", "relay", "destination", "alive", "circuit", "changed_at", "error"]


def add(commands: Commands) -> None:
    """Add the commands."""
    parser = commands.add(
        "relay",
        relay,
        "forward a queue to Redis, object storage, a webhook or another database",
        """
        pgq relay --queue audit --to redis://localhost/0
        pgq relay --queue audit --to 'redis://localhost/0?channel=audit'
        pgq relay --queue archive --subscribe 'orders.#' --to s3://bucket/prefix
        pgq relay --queue archive --to 'file:///var/archive?format=parquet' --batch 50000 --every 5m
        pgq relay --queue billing --to postgresql://other/shop
        PGQ_WEBHOOK_SECRET=whsec_... pgq relay --queue hooks --to https://example.com/hook
        """,
        more="redis:  stream=KEY (the queue's name), channel=NAME, keep=N entries, limit=N: rest "
        "while there\n        are so many\nfile, s3 and others of fsspec:  format=jsonl|parquet, "
        "compression=gzip|zstd|snappy|none\npostgresql:  topic=TOPIC, else that of each message\n"
        "https:  signed with PGQ_WEBHOOK_SECRET as standardwebhooks.com has it\n\n"
        "A relay that is started again under its name goes on with the batch that it had. One "
        "whose\ndestination is down rests, and its messages wait in the queue: see pgq relays.\n\n",
    )
    parser.add_argument("--queue", required=True, help="what to forward")
    parser.add_argument("--to", required=True, metavar="URL", help="where to")
    parser.add_argument(
        "--subscribe", metavar="PATTERN", help="let the queue, made if new, receive these topics"
    )
    parser.add_argument("--name", default="relay", help="tells relays of one queue apart (relay)")
    parser.add_argument(
        "--batch", type=positive, help="messages sent at once (500; files 10000; https 100)"
    )
    parser.add_argument(
        "--every", type=duration, metavar="DURATION", help="wait so long for a batch (files 60s; 0)"
    )
    parser.add_argument(
        "--timeout",
        type=duration,
        metavar="DURATION",
        default=duration("30s"),
        help="of one sending (30s)",
    )
    parser.add_argument(
        "--failures", type=positive, default=5, help="that open the circuit breaker (5)"
    )
    parser.add_argument(
        "--window",
        type=duration,
        metavar="DURATION",
        default=duration("2m"),
        help="in which they count (2m)",
    )
    parser.add_argument(
        "--reset",
        type=duration,
        metavar="DURATION",
        default=duration("30s"),
        help="how long it stays open (30s)",
    )
    parser.add_argument("--drain", action="store_true", help="end when nothing is ready")
    parser = commands.add(
        "relays",
        relays,
        "where relays forward queues to, and how they are doing",
        "pgq relays",
        more="A relay whose circuit is open leaves its destination alone for a while. One that is "
        "not alive\nhas not been heard of lately; if it is not to come back: "
        "select pgq.relay_report(queue, relay)\n\n",
    )


def relay(options: Options, out: Output) -> None:
    """Forward until interrupted, or drained."""
    from pgq.relay import Relay, open_destination

    logging.basicConfig(level=logging.WARNING, format="pgq: %(message)s")
    try:
        breaker = CircuitBreaker(
            failures=options.failures, window=options.window, reset=options.reset
        )
        destination = open_destination(
            options.to, queue=options.queue, relay=options.name, timeout=options.timeout
        )
    except ValueError as error:
        raise Failure(str(error), "See: pgq relay --help", code=USAGE) from None
    with connect(options.dsn) as database:
        if options.subscribe is not None:
            database.subscribe(options.queue, options.subscribe)
        worker = Relay(
            database,
            options.queue,
            destination,
            name=options.name,
            batch_size=options.batch,
            linger=options.every,
            breaker=breaker,
            drain=options.drain,
        )
        worker.run()
    say(
        f"{worker.forwarded} forwarded, {worker.refused} refused, "
        f"{worker.failures} failures of {destination.label}"
    )


def relays(options: Options, out: Output) -> None:
    """List the relays."""
    with client(options) as database:
        out.rows(database.relays(), _COLUMNS)
