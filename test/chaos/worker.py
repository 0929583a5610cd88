"""A process that publishes, consumes or does harm until SIGTERM, whatever happens to connections.

python worker.py ROLE NUMBER LIFE DSN LEDGER

The tables `sent` and `done` record published and acknowledged messages in the same transactions.
The ledger records them when the server has confirmed the commit. NUMBER distinguishes the workers
of a role, LIFE counts how often this one was started.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import Connection, IsolationLevel

import pgq

BACKLOG = 20_000
GROUPS = 5
# The consumer that gives up a statement after 400 ms
SLOW = 1
# Every message of `work` matches the first; between them they overlap.
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"kind": 1},
    {"kind": {"$in": [0, 2]}},
    {"payload.uid": {"$gt": 0}, "kind": {"$ne": 3}},
]

# Errors that the hostile role gets: no right to other queues, no such queue or lease.
REFUSED = {"42501", "QU001", "QU003"}

# A lost connection has no SQLSTATE. The others say that nothing was done: cancelled, server
# stopping or starting, too many connections, serialization failure, lease lost.
PASSING = {None, "57014", "57P01", "57P02", "57P03", "53300", "40001", "QU003"}


class Worker:
    """The common part of all roles: reopened connection, ledger, counters of errors."""

    def __init__(self, number: int, life: int, dsn: str, ledger: str) -> None:
        self.number = number
        self.life = life
        self.dsn = dsn
        self.chance = random.Random(number * 1000 + life)
        self.stopping = False
        self.uid = (number * 10_000 + life) * 10_000_000
        self._ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def note(self, what: str, values: list[Any]) -> None:
        os.write(self._ledger, f"{what} {' '.join(map(str, values))}\n".encode())

    def run(self, step: Callable[[Connection], None], isolation: IsolationLevel | None) -> None:
        while not self.stopping:
            try:
                with psycopg.connect(self.dsn) as conn:
                    conn.isolation_level = isolation
                    while not self.stopping:
                        try:
                            step(conn)
                        except psycopg.Error as error:
                            self.check_expected(error)
                            conn.rollback()
                        except pgq.LeaseLost as error:
                            self.note("error", [error.sqlstate])
                            conn.rollback()
            except psycopg.Error as error:
                self.check_expected(error)
                time.sleep(0.05)

    def check_expected(self, error: psycopg.Error) -> None:
        # A crash that ends a parallel worker before the backend has a code of its own.
        crashed = "lost connection to parallel worker" in str(error)
        # The harness sets the sequence of tokens back while claims are under way. Two of these may
        # get one token: the index refuses the second claim, which changes nothing.
        same_token = error.diag.constraint_name == "lease_id_idx"
        if not (error.sqlstate in PASSING or crashed or same_token):
            raise error
        self.note("error", [error.sqlstate])

    # Roles: one step each

    def publish(self, conn: Connection) -> None:
        size = self.chance.choice([1, 1, 1, 2, 10, 100, 300, 1000])
        uids = list(range(self.uid + 1, self.uid + 1 + size))
        self.uid += size
        group = f"{self.number}.{self.chance.randrange(GROUPS)}" if size <= 10 else None
        kind = self.chance.randrange(5)
        delay = "300 ms" if group is None and self.chance.random() < 0.2 else None
        if self.chance.random() < 0.15:
            self.publish_news(conn, uids)
            return
        conn.execute(
            "insert into sent select u, 'work', %s, %s from unnest(%s::bigint[]) u",
            [kind, group, uids],
        )
        conn.execute(
            "insert into pgq.message (topic, headers, payload, priority, group_key, deliver_at)"
            " select 'work', jsonb_build_object('kind', %(kind)s::int),"
            " jsonb_build_object('uid', u), %(priority)s, %(group)s,"
            " pgq.now() + %(delay)s::interval from unnest(%(uids)s::bigint[]) u",
            {
                "kind": kind,
                "priority": 0 if group else self.chance.randrange(2),
                "group": group,
                "delay": delay,
                "uids": uids,
            },
        )
        conn.commit()
        self.note("sent", uids)
        if self.chance.random() < 0.2:
            while self.backlog(conn) > BACKLOG and not self.stopping:
                time.sleep(0.3)

    def publish_news(self, conn: Connection, uids: list[int]) -> None:
        """Publish messages that expire soon, all at the same time or each at its own time."""
        uids = uids[:100]
        conn.execute("insert into sent select u, 'news' from unnest(%s::bigint[]) u", [uids])
        conn.execute(
            "insert into pgq.message (topic, payload, expires_at) select 'news',"
            " jsonb_build_object('uid', u), pgq.now() + (%s + %s * i) * interval '1 ms'"
            " from unnest(%s::bigint[]) with ordinality x (u, i)",
            [self.chance.choice([50, 500, 3000]), self.chance.choice([0, 1]), uids],
        )
        conn.commit()
        self.note("sent", uids)

    def backlog(self, conn: Connection) -> int:
        row = conn.execute("select sum(ready) from pgq.queue_stats").fetchone()
        conn.commit()
        return int(row[0] or 0) if row is not None else 0

    def consume(self, conn: Connection) -> None:
        client = pgq.Client(conn)
        if self.number == SLOW:
            conn.execute("set statement_timeout = '400 ms'")
        queue, wanted = "work", FILTERS[self.number % len(FILTERS)]
        if self.number == 0 and self.chance.random() < 0.1:
            queue = "news"
        dawdles = self.chance.random() < 0.05
        lease = timedelta(milliseconds=200) if dawdles else None
        size = self.chance.choice([1, 5, 50, 500, 1000])
        messages = list(client.claim(queue, wanted, size, lease=lease))
        conn.commit()
        if dawdles:
            time.sleep(0.5)  # what it does now comes too late, if another has them
        if not messages:
            time.sleep(0.02)
            return
        token = messages[0].lease_id
        fate = self.chance.random()
        if fate < 0.02:
            return  # forgotten: the lease expires
        if fate < 0.06:
            client.nack(token, error="try again", delay=timedelta(milliseconds=50))
            conn.commit()
            return
        poison = [m.id for m in messages if m.payload["uid"] % 997 == 0]
        good = [m for m in messages if m.id not in poison]
        if poison:
            client.bury(token, poison, error="poison")
        if good:
            self.finish(conn, queue, good)
            client.ack(token, [m.id for m in good])
        conn.commit()
        self.note(f"done {queue}", [m.payload["uid"] for m in good])

    def read_batches(self, conn: Connection) -> None:
        """Read as a batch engine does: a batch has a name, and is read again after a failure."""
        row = conn.execute(
            "select coalesce(max(number), 0) from batch where reader = %s", [self.number]
        ).fetchone()
        assert row is not None
        client = pgq.Client(conn)
        key = f"{self.number}/{row[0] + 1}"
        messages = list(client.claim("audit", n=2000, key=key))
        conn.commit()
        again = list(client.claim("audit", n=2000, key=key))
        conn.commit()
        if messages and again and messages[0].lease_id == again[0].lease_id:
            assert {m.id for m in messages} == {m.id for m in again}
        if self.chance.random() < 0.3:
            conn.execute("call pgq.maintain()")  # in a transaction: one slice
            conn.commit()
        if not again:
            time.sleep(0.1)
            return
        self.finish(conn, "audit", again)
        conn.execute("insert into batch values (%s, %s)", [self.number, row[0] + 1])
        client.ack(again[0].lease_id)
        conn.commit()
        self.note("done audit", [m.payload["uid"] for m in again])

    def do_harm(self, conn: Connection) -> None:
        """Do whatever a role with rights to its own queue can do, in transactions left open."""
        chance = self.chance
        harm: list[Callable[[], object]] = [
            lambda: conn.execute("select pgq.publish('mine', '1') from generate_series(1, 50)"),
            lambda: conn.execute(
                "set constraints all immediate; select count(*) from pgq.claim('mine', n => 9)"
            ),
            lambda: conn.execute("select from pgq.leased_message limit 1"),
            lambda: conn.execute(
                "select pg_advisory_xact_lock(hashtextextended(format('pgq.%s %s %s', w, i, j), 0))"
                " from unnest('{filter_scan,era,maintain,queue}'::text[]) w,"
                " generate_series(1, 9) i, generate_series(1, 9) j"
            ),
            lambda: conn.execute(
                "select count(*) from generate_series(1, 20), lateral pgq.claim('mine',"
                " jsonb_build_object('x', (random() * 1e9)::int))"
            ),
            lambda: conn.execute(
                "select set_config('pgq.low_' || i, repeat('0', 32) || %s, false)"
                " from generate_series(1, 9) i",
                [chance.choice(["", "#(1,,,,1:1:,,,,,,,,)", "x"])],
            ),
            lambda: conn.execute("select pgq.alter_queue('mine', retention => '100 ms')"),
        ]
        foreign = [
            "select * from pgq.claim('work')",
            "select pgq.publish('work', '1')",
            "select pgq.alter_queue('work', retention => '0')",
            "select pgq.ack(lease_id) from generate_series(1, 9) x (lease_id)",
            "delete from pgq.ready",
            "select pgq.drop_queue('audit', true)",
        ]
        for act in chance.sample(harm, 3):
            act()
        time.sleep(chance.random() * 0.5)
        if chance.random() < 0.5:
            conn.commit()
            try:
                conn.execute(chance.choice(foreign).encode())
            except (psycopg.Error, pgq.LeaseLost) as error:
                if error.sqlstate not in REFUSED:
                    raise
            else:
                raise AssertionError("a role could touch what belongs to others")
        conn.rollback()

    def finish(self, conn: Connection, queue: str, messages: list[pgq.Message]) -> None:
        conn.execute(
            "insert into done (queue, uid) select %s, unnest(%s::bigint[])",
            [queue, [m.payload["uid"] for m in messages]],
        )


def main() -> None:
    role, number, life, dsn, ledger = sys.argv[1:]
    worker = Worker(int(number), int(life), dsn, ledger)
    steps = {
        "publish": worker.publish,
        "consume": worker.consume,
        "read": worker.read_batches,
        "hostile": worker.do_harm,
    }
    # One of the consumers works under REPEATABLE READ, and retries what that refuses.
    strict = role == "consume" and worker.number % 4 == 3
    worker.run(steps[role], IsolationLevel.REPEATABLE_READ if strict else None)


if __name__ == "__main__":
    main()
