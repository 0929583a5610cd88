"""``pgq subscribe``, ``unsubscribe`` and ``subscriptions``."""

from __future__ import annotations

from pgq.cli._command import (
    USAGE,
    Commands,
    Failure,
    Options,
    check_queue,
    client,
    filter_document,
    moment,
)
from pgq.cli._output import Output, say, tell

__all__ = ["add"]

_COLUMNS = ("subscriber", "pattern", "match_count", "last_matched_at", "filter")


def add(commands: Commands) -> None:
    """Add the commands."""
    parser = commands.add(
        "subscribe",
        subscribe,
        "subscribe a queue, created if new, to topics",
        """
        pgq subscribe billing 'orders.*'
        pgq subscribe billing 'orders.#' '{"type": "paid"}'
        pgq subscribe billing 'orders.*' --since 2030-01-31T06:00+01:00
        """,
        more="A pattern has words separated by dots: * is one word, # any number of words.\n\n",
    )
    parser.add_argument("queue", help="the queue that receives")
    parser.add_argument("pattern", help="topic pattern; quote it for the shell")
    parser.add_argument("filter", nargs="?", type=filter_document, help="a filter document")
    since = parser.add_mutually_exclusive_group()
    since.add_argument("--since", type=moment, metavar="TIME", help="also the log from this time")
    since.add_argument("--since-id", type=int, metavar="ID", help="also the log from this id")
    parser = commands.add(
        "unsubscribe",
        unsubscribe,
        "end a subscription; messages that the queue has received stay in it",
        """
        pgq unsubscribe billing 'orders.*'
        pgq unsubscribe billing --all
        """,
    )
    parser.add_argument("queue", help="the queue that receives")
    parser.add_argument("pattern", nargs="?", help="the pattern of the subscription")
    parser.add_argument("--all", action="store_true", help="all subscriptions of the queue")
    parser = commands.add(
        "subscriptions",
        subscriptions,
        "list the subscriptions, and how many messages matched",
        """
        pgq subscriptions
        pgq subscriptions billing --json
        """,
    )
    parser.add_argument("queue", nargs="?", help="all queues if not given")


def subscribe(options: Options, out: Output) -> None:
    """Subscribe a queue."""
    with client(options, notices=True) as database:
        done = database.subscribe(
            options.queue,
            options.pattern,
            options.filter,
            since=options.since,
            since_id=options.since_id,
        )
    tell(out, "subscribed", done, "it is subscribed already")


def unsubscribe(options: Options, out: Output) -> None:
    """End a subscription, or all of a queue."""
    if (options.pattern is None) is not options.all:
        raise Failure("unsubscribe needs either a pattern or --all", code=USAGE)
    with client(options) as database:
        if options.all:
            out.value("unsubscribed", database.unsubscribe_all(options.queue))
            return
        done = database.unsubscribe(options.queue, options.pattern)
    tell(out, "unsubscribed", done, "there is no such subscription")


def subscriptions(options: Options, out: Output) -> None:
    """List subscriptions."""
    with client(options) as database:
        rows = database.subscriptions(options.queue)
    out.rows(rows, _COLUMNS)
    if not rows:
        check_queue(options, options.queue)
        say("no subscriptions")
