"""Random claims of a limited queue on three connections, and schedules that run beside them.

Limits are never exceeded, whatever is open, released, expired or changed. Rates are checked over
every window between two claims. Each run of a schedule publishes one message, whichever session
claims or maintains.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, LiteralString

import psycopg
from conftest import Connect

from model.driver import CLOCK

# Short waits: all connections are in one thread.
HASTE = """
alter function pgq._lock_flow(int, bigint) set lock_timeout = '5ms';
alter function pgq._await_rows(tid[]) set lock_timeout = '5ms';
"""
LIMITS: tuple[dict[str, Any], ...] = (
    {"max_leased": 4},
    {"max_leased": 7, "lane_max_leased": 2},
    {"rate": "1/s", "burst": 4},
    {"rate": "20/s", "burst": 40, "lane_rate": "1/s", "lane_burst": 2},
    {"max_leased": 40, "lane_max_leased": 3, "rate": "2/s", "burst": 20, "lane_rate": "1/s"},
)
NONE: dict[str, Any] = {
    "max_leased": 0,
    "rate": "",
    "burst": 0,
    "lane_max_leased": 0,
    "lane_rate": "",
}
ENDS: dict[str, LiteralString] = {
    "ack": "select pgq.ack(%s)",
    "nack": "select pgq.nack(%s)",
    "release": "select pgq.release(%s)",
}
EVERY = 10  # seconds, of the schedule
LEASED: LiteralString = """
select l.lease_id, m.headers ->> 'tenant', l.flow <> 0 as by_lane
  from pgq.lease l join pgq.queue q on q.queue_id = l.queue_id and q.name = %s
 cross join lateral unnest(l.ids) r
  join pgq.message m on m.id >= lower(r) and m.id < upper(r)
 where l.flow is not null and l.until > pgq.now()
"""


@dataclass
class Session:
    conn: psycopg.Connection
    open: bool = False
    # What the open transaction has claimed: tenants by lease, and the moment of each claim.
    claims: dict[int, list[str]] = field(default_factory=dict)
    # Leases that it has ended.
    ended: set[int] = field(default_factory=set)
    takes: list[tuple[int, str]] = field(default_factory=list)


class Walk:
    numbers = count(1)

    def __init__(
        self,
        observer: psycopg.Connection,
        connections: list[psycopg.Connection],
        chance: random.Random,
    ) -> None:
        self.chance = chance
        self.observer = observer
        self.sessions = [Session(conn) for conn in connections]
        self.clock = self.begun = self.value("select last_value from public.clock")
        number = next(self.numbers)
        self.queue, self.ticks = f"limited{number}", f"ticks{number}"
        self.leases: list[int] = []
        self.takes: list[tuple[int, str]] = []
        self.observer.execute(
            "select pgq.create_queue(%s, lane_keys => '{tenant}', lease => '5 s', set_size => 3)",
            [self.queue],
        )
        self.observer.execute("select pgq.create_queue(%s)", [self.ticks])
        self.observer.execute(
            "select pgq.schedule(%s, %s, '1', every => make_interval(secs => %s), missed => 'all')",
            [self.ticks, self.ticks, EVERY],
        )
        self.limit(chance.choice(LIMITS))

    def value(self, statement: LiteralString, *arguments: object) -> Any:
        row = self.observer.execute(statement, arguments).fetchone()
        return row and row[0]

    # What happens

    def step(self) -> None:
        steps: list[Callable[[Session], None]] = [
            *([self.publish] * 3 + [self.claim] * 6 + [self.finish] * 2),
            self.begin,
            self.begin,
            self.end,
            self.wait,
            self.maintain,
            self.change,
        ]
        session = self.chance.choice(self.sessions)
        try:
            self.chance.choice(steps)(session)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            self.end(session, commit=False)
        except psycopg.DatabaseError as error:
            if error.sqlstate != "QU003":  # the lease was over
                raise
            self.end(session, commit=False)

    def publish(self, session: Session) -> None:
        sizes = [self.chance.randrange(0, 4) for _ in range(3)]
        for tenant, size in zip("abc", sizes, strict=True):
            if size:
                session.conn.execute(
                    "select count(*) from pgq.publish_batch(%s, array_fill('1'::jsonb, %s),"
                    " array_fill(jsonb_build_object('tenant', %s::text), %s))",
                    [self.queue, [size], tenant, [size]],
                )

    def claim(self, session: Session) -> None:
        n = self.chance.choice([1, 1, 2, 5, 20])
        rows = session.conn.execute(
            "select lease_id, headers ->> 'tenant' from pgq.claim(%s, n => %s)", [self.queue, n]
        ).fetchall()
        if not rows:
            return
        tenants = [row[1] for row in rows]
        session.takes += [(self.clock, tenant) for tenant in tenants]
        # What this claim sees: all the others may roll back.
        seen = session.conn.execute(LEASED, [self.queue]).fetchall()
        self.check_leased([(tenant, by_lane) for _, tenant, by_lane in seen])
        # Or all of them commit.
        others = [other for other in self.sessions if other is not session]
        ended = set().union(*(other.ended for other in others))
        self.check_leased(
            [(tenant, by_lane) for lease, tenant, by_lane in seen if lease not in ended]
            + [
                (tenant, True)
                for other in others
                for lease in other.claims.values()
                for tenant in lease
            ]
        )
        if session.open:
            session.claims[rows[0][0]] = tenants
        else:
            self.committed(session)
        self.leases.append(rows[0][0])

    def finish(self, session: Session) -> None:
        """Acknowledge a lease, or release it."""
        if self.leases:
            lease = self.leases.pop(self.chance.randrange(len(self.leases)))
            verb = self.chance.choice(["ack", "ack", "nack", "release"])
            session.conn.execute(ENDS[verb], [lease])
            session.claims.pop(lease, None)
            if session.open:
                session.ended.add(lease)

    def begin(self, session: Session) -> None:
        if not session.open:
            session.conn.execute("begin")
            session.open = True

    def end(self, session: Session, *, commit: bool | None = None) -> None:
        if session.open:
            if self.chance.random() < 0.7 if commit is None else commit:
                session.conn.execute("commit")
                self.committed(session)
            else:
                session.conn.execute("rollback")
                session.takes = []  # the tokens are there again
        session.open, session.claims, session.ended = False, {}, set()

    def wait(self, session: Session) -> None:
        self.clock += self.chance.choice([1, 1, 3, 12])
        self.value("select setval('public.clock', %s)", self.clock)

    def maintain(self, session: Session) -> None:
        if not session.open:
            session.conn.execute("call pgq.maintain()")

    def change(self, session: Session) -> None:
        """Change the limits while no claim is open."""
        if self.chance.random() < 0.2 and not any(other.open for other in self.sessions):
            self.limit(self.chance.choice(LIMITS))

    def limit(self, limits: dict[str, Any]) -> None:
        self.limits = limits
        given = NONE | limits
        self.observer.execute(
            "select pgq.alter_queue(%s, max_leased => %s, rate => %s, burst => %s,"
            " lane_max_leased => %s, lane_rate => %s, lane_burst => %s)",
            [self.queue, *(given[name] for name in NONE), limits.get("lane_burst", 0)],
        )
        self.takes = []

    # What has to hold

    def check_leased(self, held: list[tuple[str, bool]]) -> None:
        most, most_of_lane = self.limits.get("max_leased"), self.limits.get("lane_max_leased")
        assert most is None or len(held) <= most, "more is leased than may be"
        if most_of_lane is not None:
            # Leases from before lanes had a limit count for none.
            assert all(held.count((tenant, True)) <= most_of_lane for tenant in "abc"), held

    def committed(self, session: Session) -> None:
        self.takes = sorted(self.takes + session.takes)
        session.takes = []
        self.check_rate(self.takes, self.limits.get("rate"), self.limits.get("burst"))
        for tenant in "abc":
            own = [take for take in self.takes if take[1] == tenant]
            self.check_rate(own, self.limits.get("lane_rate"), self.limits.get("lane_burst"))

    def check_rate(self, takes: list[tuple[int, str]], rate: str | None, burst: int | None) -> None:
        if rate is None:
            return
        speed = int(str(rate).partition("/")[0])
        size = int(burst or max(1, speed // 10))
        for i, (first, _) in enumerate(takes):
            for j in range(i, len(takes)):
                assert j - i + 1 <= size + speed * (takes[j][0] - first), "faster than the rate"

    def check_schedule(self, *, all_of_them: bool) -> None:
        """Check that each run has published one message, and that none is missing."""
        rows = self.observer.execute(
            "select extract(epoch from (headers ->> 'scheduled_at')::timestamptz"
            " - timestamptz '2025-02-01 00:00:00+00')::int from pgq.message where topic = %s"
            " order by 1",
            [self.ticks],
        ).fetchall()
        times = [row[0] for row in rows]
        due = list(range(self.begun + EVERY, self.clock + 1, EVERY))
        assert times == due[: len(times)], "a time was run twice, or left out"
        assert not all_of_them or times == due

    def check(self) -> None:
        for session in self.sessions:
            self.end(session)
        self.check_schedule(all_of_them=False)
        assert self.observer.execute("select * from pgq.check()").fetchall() == []

    def drain(self) -> None:
        """Check that everything is delivered in the end, and that every run was published."""
        self.check()
        self.observer.execute("call pgq.maintain()")
        self.check_schedule(all_of_them=True)
        self.observer.execute("select pgq.alter_queue(%s, max_attempts => 1000)", [self.queue])
        empty = 0
        while empty < 3:
            self.clock += 400
            self.value("select setval('public.clock', %s)", self.clock)
            lease = self.value("select max(lease_id) from pgq.claim(%s, n => 20)", self.queue)
            empty = empty + 1 if lease is None else 0
            if lease is not None:
                self.observer.execute("select pgq.ack(%s)", [lease])
        left = self.value(
            "select sum(ready + leased + scheduled) from pgq.queue_stats where queue = %s",
            self.queue,
        )
        assert left == 0, "something is left"
        self.observer.execute("select pgq.unschedule(%s)", [self.ticks])
        for queue in (self.queue, self.ticks):
            self.observer.execute("select pgq.drop_queue(%s, force => true)", [queue])


def walk_with_limits(connect: Connect, seeds: range, steps: int) -> None:
    """Take random steps, with every seed."""
    observer = connect()
    observer.execute(CLOCK)
    observer.execute(HASTE)
    connections = [connect(options="-c lock_timeout=200ms") for _ in range(3)]
    for seed in seeds:
        print(f"PGQ_SEED={seed}")  # shown by pytest when the walk fails
        walk = Walk(observer, connections, random.Random(seed))
        for step in range(steps):
            walk.step()
            if step % 20 == 19:
                walk.check()
        walk.drain()
