"""``pgq publish``."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
import time
from argparse import ArgumentTypeError, BooleanOptionalAction
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import groupby
from typing import Any, BinaryIO

import psycopg

from pgq._sync.client import Client
from pgq._sync.publisher import publish_together
from pgq.cli._command import (
    USAGE,
    Commands,
    Failure,
    Options,
    connect,
    duration,
    json_object,
    moment,
    positive,
)
from pgq.cli._output import Output, say
from pgq.cli._progress import Progress
from pgq.message import Draft, common_options

__all__ = ["add"]

_FIELDS = frozenset(field.name for field in fields(Draft))
_SPANS = ("delay", "expires_in")
_IDLE_SECONDS = 0.2


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "publish",
        publish,
        "publish a message, or one message per line of stdin",
        """
        pgq publish orders '{"amount": 120}' --headers '{"type": "paid"}' --delay 15m
        pgq publish orders < orders.jsonl
        tail -f access.log | pgq publish logs --text
        pgq dlq list orders --json | pgq publish orders.again --messages
        """,
        more="Prints the ids. Lines are published in batches, each batch in one transaction: if a "
        "batch is\nrefused, the batches before it stay published. A line is a payload, or with "
        "--messages an\nobject with payload, topic, headers, priority and so on; unknown fields "
        "are ignored.\n\n",
    )
    parser.add_argument("topic", nargs="?", help="the topic to publish to")
    parser.add_argument("payload", nargs="?", help="JSON; lines of stdin if not given")
    parser.add_argument("--text", action="store_true", help="payloads are plain text, not JSON")
    parser.add_argument("--messages", action="store_true", help="lines are messages, not payloads")
    parser.add_argument("--batch", type=positive, default=1000, help="lines per batch (1000)")
    parser.add_argument("--progress", action=BooleanOptionalAction, help="progress bar on stderr")
    parser.add_argument("--headers", type=json_object, metavar="JSON")
    parser.add_argument("--priority", type=int, metavar="N", help="higher is delivered first")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--delay", type=duration, metavar="DURATION", help="deliver after this time")
    when.add_argument("--deliver-at", type=moment, metavar="TIME", help="deliver at this time")
    parser.add_argument(
        "--expires-in", type=duration, metavar="DURATION", help="do not deliver after this time"
    )
    for name in ("sender", "recipient", "reply-to", "correlation-id", "group-key", "dedup-key"):
        parser.add_argument(f"--{name}", metavar="TEXT")


def publish(options: Options, out: Output) -> None:
    """Publish one message, or the lines of stdin."""
    if options.topic is None and not options.messages:
        raise Failure("publish needs a topic", code=USAGE)
    names = ("headers", "priority", *_SPANS, "sender", "recipient", "reply_to", "correlation_id")
    given = {
        name: getattr(options, name) for name in (*names, "group_key", "dedup_key", "deliver_at")
    }
    model = Draft(
        topic=options.topic or "",
        payload=None,
        **{name: value for name, value in given.items() if value is not None},
    )
    if options.payload is not None:
        draft = _draft(options.payload, model, options, "the payload")
        with connect(options) as conn:
            _print_ids(_send(conn, [draft]), out)
        return
    if sys.stdin.isatty():
        say("a message for each line; end with Ctrl-D")
    _publish_lines(options, model, out)


def _publish_lines(options: Options, model: Draft, out: Output) -> None:
    stream = sys.stdin.buffer
    progress = Progress(_size(stream), "messages", shown=options.progress)
    count = number = read = 0
    try:
        with connect(options) as conn:
            for lines in _batches(stream, options.batch):
                drafts = []
                for line in lines:
                    number += 1
                    read += len(line)
                    if line.strip():
                        text = line.decode(errors="replace").rstrip("\r\n")
                        drafts.append(_draft(text, model, options, f"line {number}"))
                ids = _send(conn, drafts)
                count += len(ids)
                _print_ids(ids, out)
                progress.at(read, count)
    finally:
        progress.close()
        say(f"{count} published")


def _send(conn: psycopg.Connection[Any], drafts: list[Draft]) -> list[int]:
    """Publish in one transaction; adjacent messages with common options share a statement."""
    ids: list[int] = []
    with conn.transaction():
        for _, group in groupby(drafts, common_options):
            ids += publish_together(Client(conn), list(group))
    return ids


def _print_ids(ids: list[int], out: Output) -> None:
    for id in ids:
        out.value("id", id)
    sys.stdout.flush()


def _draft(text: str, model: Draft, options: Options, where: str) -> Draft:
    if options.text and not options.messages:
        return replace(model, payload=text)
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Failure(
            f"{where} is not JSON: {error}", "For plain text there is --text.", code=USAGE
        ) from None
    if not options.messages:
        return replace(model, payload=value)
    if not isinstance(value, dict) or "payload" not in value:
        raise Failure(f"{where} is no object with a payload", code=USAGE)
    known = {name: found for name, found in value.items() if name in _FIELDS and found is not None}
    if model.topic:
        known["topic"] = model.topic
    if "topic" not in known:
        raise Failure(f"{where} has no topic", "Name one: pgq publish TOPIC --messages", code=USAGE)
    try:
        known |= {name: duration(str(known[name])) for name in _SPANS if name in known}
        if known.get("delay", model.delay) is not None:
            known["deliver_at"] = None
        elif "deliver_at" in known:
            known["deliver_at"] = moment(str(known["deliver_at"]))
    except ArgumentTypeError as error:
        raise Failure(f"{where}: {error}", code=USAGE) from None
    return replace(model, **{"payload": None} | known)


def _batches(stream: BinaryIO, size: int) -> Iterator[list[bytes]]:
    """Yield batches of lines; a batch that waits for more lines is yielded after 0.2 seconds."""
    descriptor = stream.fileno()
    rest = b""
    lines: list[bytes] = []
    began = time.monotonic()
    while True:
        late = time.monotonic() - began > _IDLE_SECONDS
        if lines and (late or not select.select([descriptor], [], [], _IDLE_SECONDS)[0]):
            yield lines
            lines = []
        if not (data := os.read(descriptor, 1 << 16)):
            break
        if not lines:
            began = time.monotonic()
        *whole, rest = (rest + data).split(b"\n")
        lines += [line + b"\n" for line in whole]
        while len(lines) >= size:
            yield lines[:size]
            lines = lines[size:]
    if rest:
        lines.append(rest)
    if lines:
        yield lines


def _size(stream: BinaryIO) -> int | None:
    """Return the size of a file in bytes; None for a pipe or terminal."""
    found = os.fstat(stream.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else None
