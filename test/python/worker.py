"""A handler that other processes can import."""

from __future__ import annotations

import os
import time

import psycopg

from pgq import Message


def handle(message: Message) -> None:
    """Record the process of a message; one message kills the process the first time."""
    if message.payload["n"] == 3 and message.attempt == 1:
        os._exit(1)
    with psycopg.connect(message.payload["dsn"], autocommit=True) as conn:
        conn.execute("insert into done values (%s, %s)", (message.payload["n"], os.getpid()))


def handle_slowly(message: Message) -> None:
    """Work for a while, and record the process."""
    time.sleep(0.5)
    handle(message)
