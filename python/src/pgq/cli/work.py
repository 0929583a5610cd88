"""``pgq consume``."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from pgq._shared.threads import on_signals
from pgq._sync.client_pooled import connect
from pgq._sync.consumer import Consumer
from pgq.cli._command import (
    Commands,
    Options,
    add_log,
    duration,
    filter_document,
    positive,
    set_log,
)
from pgq.cli._output import Output, as_json, say
from pgq.consumers.config import Reject, Retry
from pgq.message import Message

__all__ = ["add"]

_COLUMNS = ("id", "topic", "attempt", "headers", "payload")
# EX_DATAERR of sysexits.h: the input is wrong, so that a retry would fail again.
_HOPELESS = 65
_ERROR_BYTES = 2000


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "consume",
        consume,
        "run a command for each message of a queue, or print the messages",
        """
        pgq consume orders --exec ./handle-order
        pgq consume orders '{"type": "mail"}' --exec 'sendmail -t' --concurrency 4
        pgq consume logs --json >> logs.jsonl
        pgq consume orders --exec 'jq .amount' --drain
        """,
        more="sh runs the command. Its stdin is the payload as JSON; PGQ_ID, PGQ_TOPIC, "
        "PGQ_ATTEMPT,\nPGQ_HEADERS, PGQ_SENDER, PGQ_REPLY_TO and PGQ_CORRELATION_ID are in its "
        "environment.\nExit code 0 acknowledges the message, 65 makes it a dead letter, and any "
        "other code retries\nit; the end of stderr becomes the error. Without --exec a message is "
        "acknowledged after it\nwas printed. On SIGTERM and Ctrl-C running commands finish, and "
        "other messages are released.\n\n",
    )
    parser.add_argument("queue", help="the name of a queue")
    parser.add_argument("filter", nargs="?", type=filter_document, help="a filter document")
    parser.add_argument("--exec", metavar="COMMAND", help="the command to run")
    parser.add_argument("--concurrency", type=positive, default=1, help="concurrent commands (1)")
    parser.add_argument("--batch", type=positive, help="messages per claim")
    parser.add_argument(
        "--lease", type=duration, metavar="DURATION", help="lease duration; extended if needed"
    )
    parser.add_argument(
        "--timeout",
        type=duration,
        metavar="DURATION",
        help="kill a command that takes longer, and retry its message",
    )
    parser.add_argument("--drain", action="store_true", help="end when nothing is ready")
    add_log(parser)


def consume(options: Options, out: Output) -> None:
    """Consume until interrupted, or drained."""
    set_log(options, logging.WARNING)
    if options.exec is None:
        _print(options, out)
    else:
        _execute(options)


def _execute(options: Options) -> None:
    with connect(options.dsn) as client:
        consumer = Consumer(
            client,
            options.queue,
            Execute(options.exec, options.timeout),
            filter=options.filter,
            # Claim no more than can run now: other consumers can take the rest.
            batch_size=options.batch or options.concurrency,
            concurrency=options.concurrency,
            lease=options.lease,
            # --timeout kills a command; a handler in a thread could not be killed.
            handler_timeout=None,
            drain=options.drain,
        )
        consumer.run()
    say(f"{consumer.handled} handled, {consumer.failed} failed")


def _print(options: Options, out: Output) -> None:
    count = 0
    with (
        connect(options.dsn) as client,
        client.consume(
            options.queue,
            options.filter,
            batch_size=options.batch,
            lease=options.lease,
            drain=options.drain,
        ) as messages,
        on_signals(messages.stop, True),
    ):
        for message in messages:
            try:
                _show(message, out)
            except BrokenPipeError:
                messages.release()
                raise
            count += 1
    say(f"{count} printed")


def _show(message: Message, out: Output) -> None:
    row = asdict(message)
    if out.as_json:
        out.rows([row])
    else:
        print(*(as_json(row[name]) for name in _COLUMNS), sep="\t")
    sys.stdout.flush()


class Execute:
    """Runs a command for each message."""

    def __init__(self, command: str, timeout: timedelta | None = None) -> None:
        self._command = command
        self._timeout = None if timeout is None else timeout.total_seconds()

    def __call__(self, message: Message) -> None:
        """Run the command; raise `Retry` or `Reject` by its exit code."""
        sys.stdout.flush()
        with subprocess.Popen(
            ["/bin/sh", "-c", self._command],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | _environment(message),
            # In its own session the command does not get Ctrl-C, and may finish.
            start_new_session=True,
        ) as process:
            try:
                _, stderr = process.communicate(
                    as_json(message.payload).encode() + b"\n", self._timeout
                )
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise Retry(f"the command took longer than {self._timeout:g} s") from None
        text = stderr.decode(errors="replace")
        sys.stderr.write(text)
        if process.returncode == 0:
            return
        error = f"exit code {process.returncode}: {text[-_ERROR_BYTES:].strip()}".rstrip(": ")
        if process.returncode == _HOPELESS:
            raise Reject(error)
        raise Retry(error)


def _environment(message: Message) -> dict[str, str]:
    values: dict[str, Any] = {
        "PGQ_ID": message.id,
        "PGQ_TOPIC": message.topic,
        "PGQ_ATTEMPT": message.attempt,
        "PGQ_HEADERS": as_json(message.headers),
        "PGQ_SENDER": message.sender,
        "PGQ_REPLY_TO": message.reply_to,
        "PGQ_CORRELATION_ID": message.correlation_id,
    }
    return {name: str(value) for name, value in values.items() if value is not None}
