"""Three connections and an observer: every operation on one is checked for all of them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

import psycopg
from conftest import Connect
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from model.promises import (
    DEDUP_WINDOW,
    LEASE,
    MAX_ATTEMPTS,
    Aside,
    Changes,
    Facts,
    Known,
    Names,
    Place,
    Promises,
    View,
    apply,
    members,
)

# A clock that is constant between steps, the same for all sessions and snapshots. It is in the
# past, so that filters, which are compiled with the real clock, are not removed as old.
CLOCK = """
create sequence public.clock minvalue 0;
select setval('public.clock', 0);
create or replace function pgq.now() returns timestamptz
language sql volatile parallel safe
return timestamptz '2025-02-01 00:00:00+00'
    + pg_sequence_last_value('public.clock'::regclass) * interval '1 s';
"""
# Low limits, so that few messages reach them: cursors, truncation of staged messages, slices. Waits
# are short.
HASTE = r"""
do $$
declare
    v_change record;
    v_definition text;
begin
    for v_change in
        select * from (values
            ('_limit', $x$(late_rows'::text THEN) 1000$x$, '\1 3'),
            ('_limit', $x$(cursor_tests'::text THEN) 500$x$, '\1 3'),
            ('_limit', $x$(suspect_split'::text THEN) 10$x$, '\1 2'),
            ('_limit', $x$(standing_filters'::text THEN) 128$x$, '\1 1'),
            ('_limit', $x$(field_filters'::text THEN) 8$x$, '\1 1'),
            ('_await_rows', '200ms', '5ms'), ('_truncate_slot', '40 \*', '1 *'),
            ('publish_staged', 'v_count < 10000', 'v_count < 3'),
            ('_slice_ranges', '(<<|>>) 6', '\1 1')
        ) c (name, slow, quick)
    loop
        v_definition := pg_get_functiondef(('pgq.' || v_change.name)::regproc);
        if v_definition !~ v_change.slow then
            raise '% has no %', v_change.name, v_change.slow;
        end if;
        execute regexp_replace(v_definition, v_change.slow, v_change.quick, 'g');
    end loop;
end
$$
"""

kinds = st.integers(0, 2)
headers = st.fixed_dictionaries({}, optional={"k": kinds, "z": st.sampled_from(["a", "b"])})
# Few filters, so that they are used repeatedly and have scan cursors.
filters = st.sampled_from([{"k": 0}, {"k": 0}, {"z": "a"}, {"k": 1, "z": "b"}])
connections = st.integers(0, 2)
picks = st.integers(0, 10**6)
delays = st.sampled_from([None, None, None, 1, 30])
expiries = st.sampled_from([None, None, None, 5, 60])
priorities = st.sampled_from([0, 0, 0, 5, -1])
WRITERS = ["v", "w"]
# How often a claim reads everything that is due; in between it reads only what became due since
# then.
FULL_SECONDS = 5
GROUPS = [None, None, "g", "h"]
groups = st.sampled_from(GROUPS)


@dataclass
class Session:
    conn: psycopg.Connection
    open: bool = False
    repeatable: bool = False
    # What the open transaction has moved, as it sees it.
    touched: dict[int, Place | None] = field(default_factory=dict)
    facts: dict[int, Facts] = field(default_factory=dict)
    aside: Aside = field(default_factory=dict)
    # It keeps everybody else from the staging table.
    emptied: bool = False

    def forget(self) -> None:
        """Clear the state of the transaction."""
        self.open = self.repeatable = self.emptied = False
        self.touched, self.facts, self.aside = {}, {}, {}


class Refused(Exception):
    """The operation failed with an allowed error, and has changed nothing."""


class Driver(RuleBasedStateMachine):
    reconnect: ClassVar[Connect]
    numbers: ClassVar[count[int]] = count(1)
    sessions: ClassVar[list[Session]] = []
    observer: ClassVar[psycopg.Connection]
    clock: ClassVar[float] = 0

    @classmethod
    def prepare(cls, connect: Connect) -> None:
        cls.observer = connect()
        cls.observer.execute(CLOCK)
        cls.observer.execute(HASTE)
        # The views guess at large sets: neither compile for them nor start workers.
        cls.observer.execute("set jit = off; set max_parallel_workers_per_gather = 0")
        cls.reconnect = staticmethod(connect)
        cls.sessions = [Session(cls.connection()) for _ in range(3)]

    @classmethod
    def connection(cls) -> psycopg.Connection:
        conn = cls.reconnect()
        conn.execute("set jit = off; set max_parallel_workers_per_gather = 0")
        conn.execute("set lock_timeout = '20ms'")
        conn.execute("set client_min_messages = error")
        return conn

    @initialize(
        lanes=st.sampled_from([[], ["k"], ["z", "k"], ["#k"], ["z", "#k"], ["msg.group_key"]]),
        set_size=st.integers(1, 4),
        on_expiry=st.sampled_from(["dead_letter", "discard"]),
        on_dead=st.sampled_from(["release", "block"]),
        fair=st.booleans(),
        dedup=st.sampled_from(["keep", "replace", "postpone"]),
    )
    def begin(
        self, lanes: list[str], set_size: int, on_expiry: str, on_dead: str, fair: bool, dedup: str
    ) -> None:
        self.queue = f"q{next(self.numbers)}"
        self.promises = Promises(on_expiry, on_dead, self.now())
        self.stalled: set[str] = set()
        self.paused = False
        self.laned = bool(lanes)
        self.fair = fair and self.laned
        self.dedup = dedup
        self.wanted: dict[str, Any] | None = {"k": 0}
        self.subscribed = True
        self.steps = 0
        self.facts: dict[int, Facts] = {}
        self.leases: list[int] = []
        self.names: Names = {}
        self.committed: View = {}
        # Messages that were committed after they were due: claims may find them only later.
        self.overdue: dict[int, float] = {}
        self.aside: Aside = {}
        for session in self.sessions:
            session.forget()
        self.observer.execute(
            "select pgq.create_queue(%s, lane_keys => %s, lease => %s * interval '1 s',"
            " max_attempts => %s, backoff => '2 s', retention => '0', set_size => %s,"
            " on_expiry => %s, on_dead => %s, fair => %s, dedup => %s,"
            " dedup_window => %s * interval '1 s')",
            [
                self.queue,
                lanes,
                LEASE,
                MAX_ATTEMPTS,
                set_size,
                on_expiry,
                on_dead,
                self.fair,
                dedup,
                DEDUP_WINDOW,
            ],
        )
        self.observer.execute(
            "select pgq.subscribe(%s, %s, %s::jsonb)",
            [self.queue, self.other_topic(), json.dumps(self.wanted)],
        )
        self.observer.execute("select pgq.create_queue(%s)", [self.aside_queue()])

    def other_topic(self) -> str:
        """A topic to which the queue is subscribed with a filter."""
        return f"{self.queue}.other"

    def aside_queue(self) -> str:
        """A queue that messages are moved to, and back from."""
        return f"{self.queue}.aside"

    # Looking

    def now(self) -> float:
        return type(self).clock

    def view(self, conn: psycopg.Connection, queue: str | None = None) -> View:
        rows = conn.execute(
            "select id, state, attempt, lease_id,"
            " extract(epoch from until - timestamptz '2025-02-01 00:00:00+00')::float8"
            " from pgq.message_state where queue = %s",
            [queue or self.queue],
        ).fetchall()
        found = {}
        for message_id, state, attempt, lease, until in rows:
            if state in ("delayed", "retrying"):
                state = "scheduled"
            if state in ("ready", "dead"):
                until = None
            elif state == "leased" and until is None:
                until = math.inf
            found[message_id] = Place(state, attempt, until, lease)
        assert len(found) == len(rows), "a message is in two places"
        return found

    def look_aside(self, conn: psycopg.Connection) -> Aside:
        """Return the staged messages, and the positions of writers and streams."""
        rows = conn.execute(
            "with clock as (select timestamptz '2025-02-01 00:00:00+00' as zero)"
            " select 'staged', token::text, position, jsonb_build_array("
            "     headers, group_key, extract(epoch from staged_at - zero)::float8)"
            " from pgq.staged, clock where topic = %(queue)s"
            " union all select 'writer', writer, 0, jsonb_build_array(epoch)"
            " from pgq.writer where writer = any (%(writers)s)"
            " union all select 'stream', consumer, 0, jsonb_build_array("
            "     batch, owner, extract(epoch from until - zero)::float8)"
            " from pgq.stream join pgq.queue using (queue_id), clock where name = %(queue)s",
            {"queue": self.queue, "writers": [f"{self.queue} {name}" for name in WRITERS]},
        ).fetchall()
        found: Aside = {(kind, name, position): value for kind, name, position, value in rows}
        assert len(found) == len(rows), "something is staged twice"
        return found

    def shut_out(self, session: Session | None) -> bool:
        """Whether another session is truncating the staging table."""
        return any(other.emptied for other in self.sessions if other is not session)

    def put_aside(self, session: Session, before: Aside, changes: Aside) -> None:
        """Check the effects of an operation on staged messages, writers and streams."""
        assert self.look_aside(session.conn) == apply(before, changes)
        if session.open:
            session.aside |= changes
        else:
            self.aside = apply(self.aside, changes)

    def seen_aside(self, session: Session) -> Aside:
        """Return what a session sees: committed state, and its own changes."""
        found = self.look_aside(session.conn)
        if not session.repeatable:  # else it may look at the past
            assert found == apply(self.aside, session.aside)
        return found

    def stalls(self, conn: psycopg.Connection) -> set[str]:
        """The groups with a deferred advance, which a later claim makes."""
        rows = conn.execute(
            "select group_key from pgq.group_stall join pgq.queue using (queue_id) where name = %s",
            [self.queue],
        )
        return {row[0] for row in rows}

    def known(self, session: Session | None) -> Known:
        return self.facts | (session.facts if session else {})

    def judge(self, session: Session, before: View, after: View, changes: Changes) -> None:
        facts = self.known(session)
        self.promises.judge(before, after, changes, facts)
        if not session.repeatable:  # else it may look at a past that others have changed
            self.promises.judge_lines(before, after, changes, facts)
            self.sound_groups(session.conn, after, facts)

    def sound_groups(self, conn: psycopg.Connection, view: View, facts: Known) -> None:
        """Check that a group has one message in progress, and that none waits without one."""
        idle = self.promises.idle_groups(view, facts)
        assert not idle or idle <= self.stalls(conn), f"these groups wait for nobody: {idle}"

    def perform(
        self, session: Session, statement: str, arguments: list[Any], *allowed: str
    ) -> list[Any]:
        """Run a statement; if it fails with an allowed error, nothing has changed."""
        others = any(other.open for other in self.sessions if other is not session)
        codes = {*allowed}
        if others:
            codes.add("55P03")  # somebody else has it
        if session.repeatable:
            codes |= {"40001"}
        self.stalled = self.stalls(session.conn)
        try:
            return session.conn.execute(statement, arguments).fetchall()
        except psycopg.Error as error:
            if error.sqlstate not in codes:
                raise
            if session.open:
                self.end(session, "rollback")
            else:
                assert self.view(self.observer) == self.committed
            raise Refused(error.sqlstate) from None

    def done(self, session: Session, before: View, changes: dict[int, Place | None]) -> View:
        """Check the effects of an operation, for its own session and for the observer."""
        after = self.view(session.conn)
        self.judge(session, before, after, changes)
        if session.open:
            for message_id in before.keys() | after.keys():
                if before.get(message_id) != after.get(message_id):
                    session.touched[message_id] = after.get(message_id)
            assert self.view(self.observer) == self.committed, "seen before the commit"
        else:
            self.committed = after
            self.facts |= session.facts
            session.facts = {}
        return after

    def attempt(self, session: Session, statement: str, arguments: list[Any]) -> list[Any]:
        try:
            return self.perform(session, statement, arguments)
        except Refused:
            return []

    def lined_up(
        self, session: Session, before: View, ids: list[int], place: Place
    ) -> dict[int, Place | None]:
        """Return states of added messages: the first of a group without a head is ready."""
        facts = self.known(session)
        rest = {m: p for m, p in before.items() if m not in ids}
        busy = set(members(rest, facts, *self.promises.heads))
        after = self.view(session.conn) if session.repeatable or self.stalled else {}
        changes: dict[int, Place | None] = {}
        for message_id in sorted(ids):
            group = facts[message_id].group
            waits = group in busy
            if group is not None:
                busy.add(group)
                if session.repeatable or group in self.stalled:  # then it may be or not
                    waits = message_id in after and after[message_id].state == "waiting"
            changes[message_id] = Place("waiting", 0) if waits else place
        return changes

    def idle(self) -> Session | None:
        return next((session for session in self.sessions if not session.open), None)

    def change(self, statement: str, arguments: list[Any], *allowed: str) -> None:
        """Run a statement of an idle session that moves no message."""
        if session := self.idle():
            before = self.view(session.conn)
            try:
                self.perform(session, statement, arguments, *allowed)
            except Refused:
                return
            self.done(session, before, {})

    # Transactions

    @rule(
        which=connections,
        repeatable=st.sampled_from([False, False, False, True]),
        ending=st.sampled_from(["commit", "commit", "rollback"]),
    )
    def begin_or_end(self, which: int, repeatable: bool, ending: str) -> None:
        session = self.sessions[which]
        if session.open:
            self.end(session, ending)
            return
        session.conn.execute("begin")
        if repeatable:
            session.conn.execute("set transaction isolation level repeatable read")
        session.open, session.repeatable = True, repeatable

    def end(self, session: Session, ending: str) -> None:
        if ending == "terminate":
            self.terminate_backend(session)
        else:
            session.conn.execute(ending)
        after = self.view(self.observer)
        expected: dict[int, Place | None] = dict(self.committed)
        if ending == "commit":
            expected |= session.touched
            for message_id, place in session.touched.items():
                if place and place.until is not None and place.until <= self.now():
                    self.overdue[message_id] = self.now() + FULL_SECONDS
            self.facts |= session.facts
            self.aside = apply(self.aside, session.aside)
        assert after == {key: value for key, value in expected.items() if value is not None}
        self.committed = after
        session.forget()

    def terminate_backend(self, session: Session) -> None:
        row = self.observer.execute(
            "select pg_terminate_backend(%s, 30000)", [session.conn.info.backend_pid]
        ).fetchone()
        assert row == (True,)
        session.conn.close()
        session.conn = self.connection()

    @rule(which=connections)
    def terminate(self, which: int) -> None:
        """End a session that is in a transaction."""
        if self.sessions[which].open:
            self.end(self.sessions[which], "terminate")
