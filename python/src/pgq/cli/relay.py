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
        more="redis:  stream=KEY (the queue's name), channel=NAME, keep=N entries, limit=N: pause "
        "at this\n        length of the stream\nfile, s3 and others of fsspec:  "
        "format=jsonl|parquet, compression=gzip|zstd|snappy|none\npostgresql:  topic=TOPIC (the "
        "topic of each message)\nhttps:  signed with PGQ_WEBHOOK_SECRET as in "
        "standardwebhooks.com\n\nA relay that is restarted under its name continues with its last "
        "batch. While the destination\nis down, the relay pauses and the messages wait in the "
        "queue: see pgq relays.\n\n",
    )
    parser.add_argument("--queue", required=True, help="the queue to forward")
    parser.add_argument("--to", required=True, metavar="URL", help="the destination")
    parser.add_argument(
        "--subscribe", metavar="PATTERN", help="subscribe the queue, created if new, to topics"
    )
    parser.add_argument("--name", default="relay", help="unique among the queue's relays (relay)")
    parser.add_argument(
        "--batch", type=positive, help="messages per batch (500; files 10000; https 100)"
    )
    parser.add_argument(
        "--every", type=duration, metavar="DURATION", help="how long to fill a batch (files 60s; 0)"
    )
    parser.add_argument(
        "--timeout",
        type=duration,
        metavar="DURATION",
        default=duration("30s"),
        help="timeout of sending a batch (30s)",
    )
    parser.add_argument(
        "--failures", type=positive, default=5, help="failures that open the circuit breaker (5)"
    )
    parser.add_argument(
        "--window",
        type=duration,
        metavar="DURATION",
        default=duration("2m"),
        help="the time in which failures count (2m)",
    )
    parser.add_argument(
        "--reset",
        type=duration,
        metavar="DURATION",
        default=duration("30s"),
        help="how long the circuit breaker stays open (30s)",
    )
    parser.add_argument("--drain", action="store_true", help="end when nothing is ready")
    parser = commands.add(
        "relays",
        relays,
        "list the relays: destination, state and error",
        "pgq relays",
        more="A relay whose circuit is open sends nothing for a while. A relay that is not alive "
        "has sent no\nheartbeat lately. To remove it from the list: "
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
        rows = database.relays()
    out.rows(rows, _COLUMNS)
    if not rows:
        say("no relays")
