"""The life of a message, shown on a private PostgreSQL server: ``python -m pgq.demo``."""

from __future__ import annotations

import sys
import time
from typing import Any

import psycopg

from pgq import __version__, embedded
from pgq.cli._table import Table

_RETRY_SECONDS = 10.0


def main() -> int:
    """Run the demonstration; return the exit code."""
    started = time.monotonic()
    try:
        server = embedded.start(settings={"shared_buffers": "32MB"})
    except embedded.EmbeddedError as error:
        print(f"pgq.demo: {error}", file=sys.stderr)
        return 1
    with server, psycopg.connect(server.dsn(), autocommit=True) as conn:
        print(f"{server.version.replace('postgres (PostgreSQL)', 'PostgreSQL')}, pgq {__version__}")
        Story(conn).tell()
    print(f"\nThat was all, in {time.monotonic() - started:.1f} s; the server is gone again.")
    return 0


class Story:
    """The steps of a message's life, each with its SQL statement and the rows it returned."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn

    def tell(self) -> None:
        """Run and print all steps."""
        self._say("Install: one statement, no superuser, no other process:")
        self._show("create extension pgq")

        self._say("Create a queue with a lane key and two attempts:")
        self._show(
            "select pgq.create_queue('orders', lane_keys => '{type}',\n"
            "                        max_attempts => 2, backoff => '100 ms')"
        )

        self._say("Publish three orders. Publishing is part of your transaction:")
        for kind, payload in (("paid", 120), ("refund", 75), ("paid", 15)):
            self._show(
                f"select pgq.publish('orders', '{{\"amount\": {payload}}}',"
                f' headers => \'{{"type": "{kind}"}}\') as id'
            )

        self._say("Claim with a filter. Only refunds are claimed; the other orders stay:")
        refund = self._show(
            "select lease_id, id, attempt, headers, payload\n"
            "  from pgq.claim('orders', '{\"type\": \"refund\"}', n => 10)"
        )

        self._say("The bank is down. The refund fails and is retried after a short delay:")
        self._show(f"select pgq.nack({refund[0][0]}, error => 'bank not reachable') as failed")

        self._say("Meanwhile another consumer claims the paid orders, works and acknowledges them:")
        rest = self._show(
            "select lease_id, id, attempt, headers, payload\n"
            "  from pgq.claim('orders', '{\"type\": \"paid\"}', n => 10)"
        )
        self._show(f"select pgq.ack({rest[0][0]}) as done")

        self._say("The refund is due again, as attempt 2, and fails for the last time:")
        again = self._show(
            "select lease_id, id, attempt, headers, payload from pgq.claim('orders', n => 10)",
            until=1,
        )
        self._show(f"select pgq.nack({again[0][0]}, error => 'bank still not reachable') as failed")

        self._say("The refund is a dead letter now, a full copy with the reason:")
        self._show("select message_id, reason, error, attempts, payload from pgq.dead_letter")

        self._say("The bank works again. Replay, claim, acknowledge:")
        self._show("select pgq.replay('orders') as replayed")
        last = self._show(
            "select lease_id, id, attempt, headers, payload from pgq.claim('orders')", until=1
        )
        self._show(f"select pgq.ack({last[0][0]}) as done")

        self._say("The history of the refund:")
        self._show(f"select * from pgq.history({last[0][1]})")

        self._say("The queue is empty:")
        self._show("select * from pgq.queue_stats")

    def _say(self, words: str) -> None:
        print(f"\n-- {words}")

    def _show(self, statement: str, *, until: int = 0) -> list[tuple[Any, ...]]:
        """Print a statement and its rows; repeat the statement until it returns enough rows."""
        print(statement + ";")
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            cursor = self._conn.execute(statement.encode())
            if cursor.description is None:
                return []
            rows = cursor.fetchall()
            if len(rows) >= until or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        print(Table([column.name for column in cursor.description], rows, indent=3))
        if len(rows) < until:
            raise RuntimeError(f"expected {until} rows")
        return rows


if __name__ == "__main__":
    sys.exit(main())
