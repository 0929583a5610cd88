"""Random operations on three connections, each judged against a simple model of the promises.

The model knows what a message may do: become ready when it is due, come back when its lease has
expired, die after its last attempt or when its time is over; all else only because somebody has
said so. Of an ordering group one message at a time is under way, and of those that wait the lowest
id is next. Before and after every operation the state is read, on the connection itself and by an
observer who sees what is committed: every difference has to be one that the model allows. So a
message that is lost, doubled, held twice, out of turn or counted wrongly shows at once, with the
steps that led there.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ClassVar

import psycopg
import pytest
from conftest import Connect
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

pytestmark = pytest.mark.unpooled("its sessions have settings of their own")

EXAMPLES = int(os.environ.get("PGQ_EXAMPLES", "15"))
STEPS = int(os.environ.get("PGQ_STEPS", "40"))
WALKS = int(os.environ.get("PGQ_WALKS", "6"))
MAX_ATTEMPTS = 3
LEASE = 10

# A clock that stands still between the steps, the same for all sessions and snapshots. It is in the
# past, so that filters, which are compiled by the true clock, are not forgotten as old.
CLOCK = """
create sequence public.clock minvalue 0;
select setval('public.clock', 0);
create or replace function pgq.now() returns timestamptz
language sql volatile parallel safe
return timestamptz '2025-02-01 00:00:00+00'
    + pg_sequence_last_value('public.clock'::regclass) * interval '1 s';
"""
# What is remembered only after many messages is remembered after a few, and nobody waits for long.
HASTE = """
do $$
declare
    v_function record;
begin
    for v_function in
        select replace(replace(replace(
                   pg_get_functiondef(p.oid), 'v_tested >= 500', 'v_tested >= 3'),
                   '>= 512', '>= 3'), '200ms', '5ms') as definition
        from pg_proc p where p.pronamespace = 'pgq'::regnamespace
          and p.proname in ('_take', '_take_matching', '_await_rows')
        union all
        select replace(pg_get_functiondef('pgq._era_patience'::regproc), '50 ms', '1 ms')
    loop
        execute v_function.definition;
    end loop;
end
$$
"""

kinds = st.integers(0, 2)
headers = st.fixed_dictionaries({}, optional={"k": kinds, "z": st.sampled_from(["a", "b"])})
# Few, so that they are used again and remember what they have seen.
filters = st.sampled_from([{"k": 0}, {"k": 0}, {"z": "a"}, {"k": 1, "z": "b"}])
connections = st.integers(0, 2)
picks = st.integers(0, 10**6)
delays = st.sampled_from([None, None, None, 1, 30])
expiries = st.sampled_from([None, None, None, 5, 60])
priorities = st.sampled_from([0, 0, 0, 5, -1])
GROUPS = [None, None, "g", "h"]
groups = st.sampled_from(GROUPS)

UNDER_WAY = ("ready", "scheduled", "leased")


def matches(document: dict[str, Any] | None, found: dict[str, Any]) -> bool:
    return all(key in found and found[key] == value for key, value in (document or {}).items())


@dataclass(frozen=True)
class Place:
    """Where a message is; until is when it is due, or when its lease ends."""

    state: str
    attempt: int
    until: float | None = None
    lease: int | None = None


@dataclass
class Facts:
    """What never changes about a message, apart from that a replay may revive it."""

    priority: int
    headers: dict[str, Any]
    expires: float | None
    group: str | None = None
    # When it is to be delivered, if that is not at once.
    due: float | None = None
    revived: bool = False
    # It has been nowhere else than among the ready.
    fresh: bool = True


View = dict[int, Place]


@dataclass
class Session:
    conn: psycopg.Connection
    open: bool = False
    repeatable: bool = False
    # What the open transaction has moved, as it sees it.
    touched: dict[int, Place | None] = field(default_factory=dict)
    facts: dict[int, Facts] = field(default_factory=dict)


class Refused(Exception):
    """The operation failed in a way that is allowed, and has changed nothing."""


class Model(RuleBasedStateMachine):
    connect: ClassVar[Connect]
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
        cls.sessions = [Session(connect()) for _ in range(3)]
        for session in cls.sessions:
            session.conn.execute("set jit = off; set max_parallel_workers_per_gather = 0")
            session.conn.execute("set lock_timeout = '20ms'")
            session.conn.execute("set client_min_messages = error")

    @initialize(
        lanes=st.sampled_from([[], ["k"], ["z", "k"]]),
        set_size=st.integers(1, 4),
        on_expiry=st.sampled_from(["dead_letter", "discard"]),
        on_dead=st.sampled_from(["release", "block"]),
    )
    def begin(self, lanes: list[str], set_size: int, on_expiry: str, on_dead: str) -> None:
        self.queue = f"q{next(self.numbers)}"
        self.on_expiry = on_expiry
        # What is under way of a group keeps the others waiting; so does a dead letter that blocks.
        self.heads = (*UNDER_WAY, "dead") if on_dead == "block" else UNDER_WAY
        self.stalled: set[str] = set()
        self.paused = False
        self.laned = bool(lanes)
        self.wanted: dict[str, Any] | None = {"k": 0}
        self.subscribed = True
        self.steps = 0
        self.facts: dict[int, Facts] = {}
        self.leases: list[int] = []
        self.committed: View = {}
        for session in self.sessions:
            session.open = session.repeatable = False
            session.touched, session.facts = {}, {}
        self.observer.execute(
            "select pgq.create_queue(%s, lane_keys => %s, lease => %s * interval '1 s',"
            " max_attempts => %s, backoff => '2 s', retention => '0', set_size => %s,"
            " on_expiry => %s, on_dead => %s)",
            [self.queue, lanes, LEASE, MAX_ATTEMPTS, set_size, on_expiry, on_dead],
        )
        self.observer.execute(
            "select pgq.subscribe(%s, %s, %s::jsonb)",
            [self.queue, self.other_topic(), json.dumps(self.wanted)],
        )

    def other_topic(self) -> str:
        """A topic of which the queue receives what a filter says."""
        return f"{self.queue}.other"

    # Looking

    def now(self) -> float:
        return type(self).clock

    def view(self, conn: psycopg.Connection) -> View:
        rows = conn.execute(
            "select id, state, attempt, lease_id,"
            " extract(epoch from until - timestamptz '2025-02-01 00:00:00+00')::float8"
            " from pgq.message_state where queue = %s",
            [self.queue],
        ).fetchall()
        found = {}
        for message_id, state, attempt, lease, until in rows:
            if state in ("delayed", "retrying"):
                state = "scheduled"
            if state in ("ready", "dead"):
                until = None
            found[message_id] = Place(state, attempt, until, lease)
        assert len(found) == len(rows), "a message is in two places"
        return found

    def stalls(self, conn: psycopg.Connection) -> set[str]:
        """The groups that a publisher held when their head was done: a later claim moves them."""
        rows = conn.execute(
            "select group_key from pgq.group_stall join pgq.queue using (queue_id) where name = %s",
            [self.queue],
        )
        return {row[0] for row in rows}

    def fate(self, message_id: int, place: Place, facts: Facts) -> list[Place | None]:
        """All that may become of a message by itself, up to now."""
        now, fates, i = self.now(), [place], 0
        gone = False
        while i < len(fates):
            at, i = fates[i], i + 1
            due = at.until is not None and at.until <= now
            if at.state == "waiting":  # its turn may have come
                later = facts.due is not None and facts.due > now
                fates.append(Place("scheduled", 0, facts.due) if later else Place("ready", 0))
            elif at.state == "leased" and due:
                fates.append(Place("ready" if at.attempt < MAX_ATTEMPTS else "dead", at.attempt))
            elif at.state == "scheduled" and due:
                fates.append(Place("ready", at.attempt))
            elif at.state == "ready" and self.expired(facts):
                if self.on_expiry == "discard":
                    gone = True
                else:
                    fates.append(Place("dead", at.attempt))
        return [*fates, None] if gone else list(fates)

    def expired(self, facts: Facts) -> bool:
        return facts.expires is not None and facts.expires <= self.now() and not facts.revived

    def known(self, session: Session | None) -> dict[int, Facts]:
        return self.facts | (session.facts if session else {})

    def judge(
        self,
        session: Session,
        before: View,
        after: View,
        said: dict[int, Place | None],
    ) -> None:
        """Every difference was said, or is a message's own fate."""
        facts = self.known(session)
        for message_id in before.keys() | after.keys() | said.keys():
            was, now_is = before.get(message_id), after.get(message_id)
            if message_id in said:
                expected: list[Place | None] = [said[message_id]]
            elif was is None:
                raise AssertionError(f"message {message_id} came from nowhere: {now_is}")
            else:
                expected = self.fate(message_id, was, facts[message_id])
            assert any(same(now_is, place) for place in expected), (
                f"message {message_id} was {was}, is {now_is}, may be {expected}"
            )
        if not session.repeatable:  # else it may look at a past that others have changed
            self.judge_groups(session, before, after)

    def members(self, view: View, facts: dict[int, Facts], *states: str) -> dict[str, list[int]]:
        """The messages of each group that are in one of these states, in order."""
        found: dict[str, list[int]] = {}
        for message_id in sorted(view):
            group = facts[message_id].group
            if group is not None and view[message_id].state in states:
                found.setdefault(group, []).append(message_id)
        return found

    def judge_groups(self, session: Session, before: View, after: View) -> None:
        """Who left the line were the first in it, and came after who was under way."""
        facts = self.known(session)
        for group, line in self.members(before, facts, "waiting").items():
            left = [m for m in line if after.get(m, Place("gone", 0)).state != "waiting"]
            assert left == line[: len(left)], f"group {group} was {line}, left by {left}"
        self.sound_groups(session.conn, after, facts)

    def sound_groups(self, conn: psycopg.Connection, view: View, facts: dict[int, Facts]) -> None:
        """One of a group at a time, and not none while others wait."""
        heads = self.members(view, facts, *self.heads)
        for group, found in heads.items():
            assert len(found) == 1, f"of group {group} are under way: {found}"
        idle = self.members(view, facts, "waiting").keys() - heads.keys()
        assert not idle or idle <= self.stalls(conn), f"these groups wait for nobody: {idle}"

    def perform(
        self, session: Session, statement: str, arguments: list[Any], *allowed: str
    ) -> list[Any]:
        """Run a statement; if it fails as it may, nothing has changed."""
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

    def done(self, session: Session, before: View, said: dict[int, Place | None]) -> View:
        """Judge what an operation has done, for its own session and for everybody."""
        after = self.view(session.conn)
        self.judge(session, before, after, said)
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
        session.conn.execute(ending)
        after = self.view(self.observer)
        expected: dict[int, Place | None] = dict(self.committed)
        if ending == "commit":
            expected |= session.touched
            self.facts |= session.facts
        assert after == {key: value for key, value in expected.items() if value is not None}
        self.committed = after
        session.open = session.repeatable = False
        session.touched, session.facts = {}, {}

    # Publishing

    @rule(
        which=connections,
        header=headers,
        priority=priorities,
        delay=delays,
        expiry=expiries,
        group=groups,
    )
    def publish(
        self,
        which: int,
        header: dict[str, Any],
        priority: int,
        delay: int | None,
        expiry: int | None,
        group: str | None,
    ) -> None:
        session = self.sessions[which]
        before = self.view(session.conn)
        rows = self.attempt(
            session,
            "select pgq.publish(%s, '1', %s::jsonb, %s, %s * interval '1 s', %s * interval '1 s',"
            " group_key => %s)",
            [self.queue, json.dumps(header), priority, delay, expiry, group],
        )
        ids = [row[0] for row in rows]
        self.published(session, before, ids, [header], priority, delay, expiry, [group])

    @rule(
        which=connections,
        batch=st.lists(headers, min_size=1, max_size=7),
        priority=priorities,
        delay=delays,
        expiry=expiries,
        chosen=st.lists(groups, min_size=1, max_size=3),
        insert=st.booleans(),
    )
    def publish_batch(
        self,
        which: int,
        batch: list[dict[str, Any]],
        priority: int,
        delay: int | None,
        expiry: int | None,
        chosen: list[str | None],
        insert: bool,
    ) -> None:
        """Publish many: of several groups by INSERT, of one by the function."""
        session = self.sessions[which]
        before = self.view(session.conn)
        wanted = [chosen[i % len(chosen) if insert else 0] for i in range(len(batch))]
        if insert:
            statement = (
                "insert into pgq.message"
                " (topic, payload, headers, priority, deliver_at, expires_at, group_key)"
                " select %s, '1', h, %s, pgq.now() + %s * interval '1 s',"
                " pgq.now() + %s * interval '1 s', g"
                " from unnest(%s::jsonb[], %s::text[]) u (h, g) returning id"
            )
            arguments = [
                self.queue, priority, delay, expiry, [json.dumps(h) for h in batch], wanted,
            ]  # fmt: skip
        else:
            statement = (
                "select * from pgq.publish_batch(%s, array_fill('1'::jsonb, array[%s]),"
                " %s::jsonb[], %s, %s * interval '1 s', %s * interval '1 s', group_key => %s)"
            )
            arguments = [
                self.queue, len(batch), [json.dumps(h) for h in batch], priority, delay, expiry,
                wanted[0],
            ]  # fmt: skip
        ids = [row[0] for row in self.attempt(session, statement, arguments)]
        self.published(session, before, ids, batch, priority, delay, expiry, wanted)

    def attempt(self, session: Session, statement: str, arguments: list[Any]) -> list[Any]:
        try:
            return self.perform(session, statement, arguments)
        except Refused:
            return []

    def published(
        self,
        session: Session,
        before: View,
        ids: list[int],
        batch: list[dict[str, Any]],
        priority: int,
        delay: int | None,
        expiry: int | None,
        wanted: list[str | None],
    ) -> None:
        if not ids:
            return  # refused
        now = self.now()
        due = now + delay if delay else None
        place = Place("scheduled", 0, due) if delay else Place("ready", 0)
        expires = None if expiry is None else now + expiry
        for message_id, header, group in zip(ids, batch, wanted, strict=True):
            session.facts[message_id] = Facts(
                priority, header, expires, group, due, fresh=not delay
            )
        self.done(session, before, self.lined_up(session, before, ids, place))

    def lined_up(
        self, session: Session, before: View, ids: list[int], place: Place
    ) -> dict[int, Place | None]:
        """Where messages come: of a group the first, if nobody is before it; the others wait."""
        facts = self.known(session)
        rest = {m: p for m, p in before.items() if m not in ids}
        busy = set(self.members(rest, facts, *self.heads))
        after = self.view(session.conn) if session.repeatable or self.stalled else {}
        said: dict[int, Place | None] = {}
        for message_id in sorted(ids):
            group = facts[message_id].group
            waits = group in busy
            if group is not None:
                busy.add(group)
                if session.repeatable or group in self.stalled:  # then it may be or not
                    waits = message_id in after and after[message_id].state == "waiting"
            said[message_id] = Place("waiting", 0) if waits else place
        return said

    @rule(which=connections, batch=st.lists(headers, min_size=1, max_size=4))
    def publish_elsewhere(self, which: int, batch: list[dict[str, Any]]) -> None:
        """Publish to the topic that the queue has subscribed to with a filter, or to nobody."""
        session = self.sessions[which]
        before = self.view(session.conn)
        try:
            rows = self.perform(
                session,
                "select * from"
                " pgq.publish_batch(%s, array_fill('1'::jsonb, array[%s]), %s::jsonb[])",
                [self.other_topic(), len(batch), [json.dumps(h) for h in batch]],
                *([] if self.subscribed else ["QU005"]),
            )
        except Refused:
            return
        assert self.subscribed, "published, and nobody receives it"
        said: dict[int, Place | None] = {}
        for (message_id,), header in zip(rows, batch, strict=True):
            if matches(self.wanted, header):
                session.facts[message_id] = Facts(0, header, None)
                said[message_id] = Place("ready", 0)
        self.done(session, before, said)

    @rule(which=connections, key=st.sampled_from(["a", "b"]))
    def publish_once(self, which: int, key: str) -> None:
        session = self.sessions[which]
        before = self.view(session.conn)
        rows = self.attempt(
            session,
            "select i, (select count(*) from pgq.message m where m.id = i) from"
            " pgq.publish(%s, '1', dedup_key => %s) i",
            [self.queue, key],
        )
        if rows:
            message_id = rows[0][0]
            assert message_id is not None
            if message_id in self.known(session):
                self.done(session, before, {})  # said before: nothing is delivered
            else:
                session.facts[message_id] = Facts(0, {}, None)
                self.done(session, before, {message_id: Place("ready", 0)})

    # Consuming

    @rule(which=connections, n=st.sampled_from([1, 2, 3, 20]))
    def claim_any(self, which: int, n: int) -> None:
        self.claim(which, None, n)

    @rule(which=connections, pick=picks, document=st.none() | filters, n=st.sampled_from([1, 3]))
    @precondition(lambda self: self.leases)
    def claim_next(self, which: int, pick: int, document: dict[str, Any] | None, n: int) -> None:
        """Acknowledge a lease and claim more in one call."""
        self.claim(which, document, n, self.choose(self.sessions[which], pick, None)[0])

    @rule(which=connections, document=filters, n=st.sampled_from([1, 2, 3, 20]))
    def claim_some(self, which: int, document: dict[str, Any], n: int) -> None:
        self.claim(which, document, n)

    def claim(
        self, which: int, document: dict[str, Any] | None, n: int, done: int | None = None
    ) -> None:
        session = self.sessions[which]
        before = self.view(session.conn)
        ended = [m for m, p in before.items() if done is not None and p.lease == done]
        try:
            rows = self.perform(
                session,
                "select lease_id, id, priority, attempt, headers from"
                " pgq.claim(%s, %s::jsonb, n => %s, done => %s)",
                [self.queue, None if document is None else json.dumps(document), n, done],
                *([] if done is None else ["QU003"]),
            )
        except Refused as refused:
            if str(refused) == "QU003" and ended:
                raise AssertionError("a good token was refused") from None
            return
        assert done is None or ended, "a stale token was accepted"
        said: dict[int, Place | None] = dict.fromkeys(ended)
        facts = self.known(session)
        assert len(rows) <= n
        assert len({row[0] for row in rows}) <= 1
        for lease, message_id, priority, attempt, header in rows:
            fact, was = facts[message_id], before[message_id]
            assert message_id not in said, "twice in one claim"
            assert (priority, header) == (fact.priority, fact.headers)
            assert matches(document, header), "does not match the filter"
            assert not self.expired(fact), "delivered after its time"
            ready = [p for p in self.fate(message_id, was, fact) if p and p.state == "ready"]
            assert ready, f"message {message_id} was {was}: not to be had"
            assert attempt == ready[0].attempt + 1
            said[message_id] = Place("leased", attempt, self.now() + LEASE, lease)
            if lease not in self.leases:
                self.leases.append(lease)
        # Whose turn came during the claim, because the head of its group had expired, comes late.
        ordered = [row for row in rows if before[row[1]].state != "waiting"]
        if not self.laned:
            # Of one priority what is fresh comes in the order in which it was published; of a batch
            # those of groups are sets of their own.
            for grouped in (False, True):
                fresh = [
                    (-row[2], row[1])
                    for row in ordered
                    if facts[row[1]].fresh and (facts[row[1]].group is not None) == grouped
                ]
                assert fresh == sorted(fresh), "out of order"
        for row in rows:
            facts[row[1]].fresh = False
        # Of one priority the sets are in order, and sets of a batch may overlap.
        assert [row[2] for row in ordered] == sorted((row[2] for row in ordered), reverse=True)
        if self.paused and not session.repeatable:
            assert not rows, "delivered while paused"
        after = self.done(session, before, said)
        alone = not any(other.open for other in self.sessions if other is not session)
        if len(rows) < n and alone and not self.paused and not session.repeatable:
            missed = [
                message_id
                for message_id, place in after.items()
                if matches(document, facts[message_id].headers)
                and not self.expired(facts[message_id])
                and (place.state == "ready" or (not rows and self.available(message_id, place)))
            ]
            assert not missed, f"not found: {missed}"
            if not rows:  # then it has looked after the queue
                assert not self.stalls(session.conn), "a group was not moved on"

    def available(self, message_id: int, place: Place) -> bool:
        if place.state == "waiting":
            return False
        fates = self.fate(message_id, place, self.facts.get(message_id) or Facts(0, {}, None))
        return any(p is not None and p.state == "ready" for p in fates)

    def choose(self, session: Session, pick: int, part: int | None) -> tuple[int, list[int] | None]:
        """A lease, perhaps of the past, and all or some or wrong ids."""
        lease = self.leases[-1 - pick % min(len(self.leases), 6)]
        if part is None:
            return lease, None
        held = sorted(m for m, p in self.view(session.conn).items() if p.lease == lease)
        ids = [m for i, m in enumerate(held) if part >> (i % 5) & 1]
        if part % 7 == 0 and self.facts:
            ids.append(sorted(self.facts)[pick % len(self.facts)])
        return lease, ids

    def finish_some(
        self,
        session: Session,
        pick: int,
        part: int | None,
        statement: str,
        arguments: list[Any],
    ) -> tuple[View, list[int]] | None:
        lease, ids = self.choose(session, pick, part)
        before = self.view(session.conn)
        held = [m for m, p in before.items() if p.lease == lease]
        good = bool(held) if ids is None else set(ids) <= set(held)
        try:
            rows = self.perform(session, statement, [lease, ids, *arguments], "QU003")
        except Refused as refused:
            if str(refused) == "QU003" and good:
                raise AssertionError("a good token was refused") from None
            return None
        ended = held if ids is None else list(dict.fromkeys(ids))
        assert good, "a stale token was accepted"
        assert rows == [(len(ended),)]
        return before, ended

    @rule(
        which=connections,
        pick=picks,
        part=st.none() | st.integers(0, 31),
        how=st.sampled_from(["ack", "ack", "nack", "nack", "release", "bury", "extend"]),
        delay=st.sampled_from([None, 0, 5]),
    )
    @precondition(lambda self: self.leases)
    def settle(self, which: int, pick: int, part: int | None, how: str, delay: int | None) -> None:
        if how == "ack":
            self.ack(which, pick, part)
        elif how == "bury":
            self.bury(which, pick, part)
        elif how == "extend":
            self.extend(which, pick, 30 if delay else None)
        else:
            self.nack(which, pick, part, delay, release=how == "release")

    def ack(self, which: int, pick: int, part: int | None) -> None:
        session = self.sessions[which]
        if ended := self.finish_some(session, pick, part, "select pgq.ack(%s, %s)", []):
            self.done(session, ended[0], dict.fromkeys(ended[1]))

    def nack(
        self, which: int, pick: int, part: int | None, delay: int | None, release: bool
    ) -> None:
        session = self.sessions[which]
        verb = "release" if release else "nack"
        if release:
            delay = delay or 0
        ended = self.finish_some(
            session, pick, part, f"select pgq.{verb}(%s, %s, delay => %s * interval '1 s')", [delay]
        )
        if ended is None:
            return
        before, ids = ended
        said: dict[int, Place | None] = {}
        for message_id in ids:
            attempt = before[message_id].attempt - release
            if not release and attempt >= MAX_ATTEMPTS:
                said[message_id] = Place("dead", attempt)
            elif delay == 0:
                said[message_id] = Place("ready", attempt)
            else:
                due = None if delay is None else self.now() + delay
                said[message_id] = Place("scheduled", attempt, due)
        self.done(session, before, said)

    def bury(self, which: int, pick: int, part: int | None) -> None:
        session = self.sessions[which]
        if ended := self.finish_some(session, pick, part, "select pgq.bury(%s, %s, 'no good')", []):
            said = {m: Place("dead", ended[0][m].attempt) for m in ended[1]}
            self.done(session, ended[0], dict(said))

    def extend(self, which: int, pick: int, longer: int | None) -> None:
        session = self.sessions[which]
        lease, _ = self.choose(session, pick, None)
        before = self.view(session.conn)
        held = {m: p for m, p in before.items() if p.lease == lease}
        try:
            self.perform(
                session, "select pgq.extend(%s, %s * interval '1 s')", [lease, longer], "QU003"
            )
        except Refused as refused:
            if str(refused) == "QU003" and held:
                raise AssertionError("a good token was refused") from None
            return
        assert held, "a stale token was accepted"
        until = self.now() + (longer or LEASE)
        said = {
            m: Place("leased", p.attempt, max(until, p.until or 0), lease) for m, p in held.items()
        }
        self.done(session, before, dict(said))

    # Dead letters

    @rule(
        which=connections,
        document=st.none() | filters,
        n=st.sampled_from([None, 1, 3]),
        keep=st.booleans(),
    )
    def dead_letters(
        self, which: int, document: dict[str, Any] | None, n: int | None, keep: bool
    ) -> None:
        session = self.sessions[which]
        before = self.view(session.conn)
        facts = self.known(session)
        dead = [
            m
            for m, p in before.items()
            if p.state == "dead" and matches(document, facts[m].headers)
        ]
        verb = "replay" if keep else "discard"
        try:
            rows = self.perform(
                session,
                f"select pgq.{verb}(%s, %s::jsonb, %s)",
                [self.queue, None if document is None else json.dumps(document), n],
            )
        except Refused:
            return
        after = self.view(session.conn)
        moved = [m for m in dead if before[m] != after.get(m)]
        assert rows == [(len(moved),)]
        if not any(other.open for other in self.sessions):
            assert len(moved) == min(len(dead), len(dead) if n is None else n)
        if keep:
            for m in moved:
                expires = facts[m].expires
                revived = facts[m].revived or (expires is not None and expires <= self.now())
                session.facts[m] = replace(facts[m], revived=revived, fresh=False)
            self.done(session, before, self.lined_up(session, before, moved, Place("ready", 0)))
        else:
            self.done(session, before, dict.fromkeys(moved))

    # Policy, upkeep, time

    def idle(self) -> Session | None:
        return next((session for session in self.sessions if not session.open), None)

    def change(self, statement: str, arguments: list[Any], *allowed: str) -> None:
        """Something that an idle session does, and that moves no message."""
        if session := self.idle():
            before = self.view(session.conn)
            try:
                self.perform(session, statement, arguments, *allowed)
            except Refused:
                return
            self.done(session, before, {})

    @rule(
        lanes=st.none() | st.sampled_from([[], ["k"], ["z"], ["k", "z"]]),
        set_size=st.none() | st.integers(1, 6),
        paused=st.sampled_from([None, None, True, False]),
    )
    def alter(self, lanes: list[str] | None, set_size: int | None, paused: bool | None) -> None:
        self.change(
            "select pgq.alter_queue(%s, lane_keys => %s, set_size => %s)",
            [self.queue, lanes, set_size],
        )
        self.laned = self.laned or bool(lanes)
        if paused is not None or self.paused:
            self.pause(pause=bool(paused))

    @rule(document=st.none() | filters)
    def alter_filter(self, document: dict[str, Any] | None) -> None:
        """What is published from now on has to pass another filter; what is there stays."""
        if not self.subscribed:
            return
        self.change(
            "select pgq.alter_subscription(%s, %s, %s::jsonb)",
            [self.queue, self.other_topic(), None if document is None else json.dumps(document)],
        )
        row = self.observer.execute(
            "select filter from pgq.subscription where subscriber = %s and pattern = %s",
            [self.queue, self.other_topic()],
        ).fetchone()
        assert row is not None
        self.wanted = row[0]

    @rule(document=filters)
    def resubscribe(self, document: dict[str, Any]) -> None:
        """End the subscription, or begin it anew: what is there stays."""
        arguments = [self.queue, self.other_topic()]
        if self.subscribed:
            self.change("select pgq.unsubscribe(%s, %s)", arguments)
        else:
            self.change(
                "select pgq.subscribe(%s, %s, %s::jsonb)", [*arguments, json.dumps(document)]
            )
        row = self.observer.execute(
            "select filter from pgq.subscription where subscriber = %s and pattern = %s", arguments
        ).fetchone()
        self.subscribed = row is not None
        self.wanted = row[0] if row is not None else None

    def pause(self, pause: bool) -> None:
        verb = "pause" if pause else "resume"
        if self.idle():
            self.change(f"select pgq.{verb}(%s)", [self.queue])
            row = self.observer.execute(
                "select paused from pgq.queue where name = %s", [self.queue]
            ).fetchone()
            assert row is not None
            self.paused = row[0]

    @rule()
    def maintain(self) -> None:
        if session := self.idle():
            before = self.view(session.conn)
            session.conn.execute("call pgq.maintain()")
            self.done(session, before, {})

    @rule(seconds=st.sampled_from([1, 3, 11, 40]))
    def wait(self, seconds: int) -> None:
        type(self).clock += seconds
        self.observer.execute("select setval('clock', %s)", [int(self.now())])

    # Always

    @invariant()
    def sound(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert self.view(self.observer) == self.committed
        self.sound_groups(self.observer, self.committed, self.facts)
        self.steps += 1
        if self.steps % 5 == 0:
            self.check()

    def check(self) -> None:
        problems = self.observer.execute("select * from pgq.check()").fetchall()
        assert problems == []
        counted = self.observer.execute(
            "select ready, scheduled, leased, dead, waiting, exact from pgq.queue_stats"
            " where queue = %s",
            [self.queue],
        ).fetchone()
        states = Counter(place.state for place in self.committed.values())
        expected = [states[state] for state in ("ready", "scheduled", "leased", "dead", "waiting")]
        assert counted == (*expected, True), "statistics say otherwise"

    def teardown(self) -> None:
        for session in self.sessions:
            session.conn.execute("rollback")
            session.open = session.repeatable = False
            session.touched, session.facts = {}, {}
        if not hasattr(self, "queue"):
            return
        if self.view(self.observer) == self.committed:  # else it has failed already
            self.drain()
            self.check()
        self.observer.execute("select pgq.drop_queue(%s, force => true)", [self.queue])

    def drain(self) -> None:
        """Whatever has happened, all that is not dead can be delivered in the end."""
        self.pause(pause=False)
        for _ in range(100):
            self.wait(seconds=400)
            lease = self.observer.execute(
                "select max(lease_id), count(*) from pgq.claim(%s, n => 10)", [self.queue]
            ).fetchone()
            assert lease is not None
            if lease[0] is not None:
                self.observer.execute("select pgq.ack(%s)", [lease[0]])
                continue
            # A dead letter may be all that others wait for.
            waiting = self.members(self.view(self.observer), self.facts, "waiting")
            if not waiting or self.heads == UNDER_WAY:
                break
            self.observer.execute("select pgq.discard(%s)", [self.queue])
        self.committed = self.view(self.observer)
        assert {place.state for place in self.committed.values()} <= {"dead"}


def same(is_now: Place | None, may_be: Place | None) -> bool:
    """Equal, but for a due time that was left to chance."""
    if is_now is None or may_be is None:
        return is_now is may_be
    if may_be.state == "scheduled" and may_be.until is None:
        return (is_now.state, is_now.attempt) == (may_be.state, may_be.attempt)
    return is_now == may_be


def test_random_operations_keep_the_promises(connect: Connect) -> None:
    machine = type("Machine", (Model,), {})
    machine.prepare(connect)  # type: ignore[attr-defined]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def walk(machine: Model, chance: random.Random, steps: int) -> None:
    """Many steps that mostly publish and consume, where the rules above wander more widely."""

    def header() -> dict[str, Any]:
        return {"k": chance.randrange(3), "z": chance.choice("ab")}

    def which() -> int:
        return chance.choice([0, 0, 1, 2])

    def some() -> tuple[int, int | None, int | None]:
        """Priority, delay, expiry."""
        return (
            chance.choice([0, 0, 0, 5, -1]),
            chance.choice([None] * 8 + [1, 30]),
            chance.choice([None] * 8 + [5, 60]),
        )

    def begin_or_end() -> None:
        open_now = [i for i, session in enumerate(machine.sessions) if session.open]
        number = chance.choice(open_now) if open_now and chance.random() < 0.7 else which()
        machine.begin_or_end(
            number, chance.random() < 0.2, chance.choice(["commit", "commit", "rollback"])
        )

    def settle() -> None:
        if machine.leases:
            how = chance.choice(["ack"] * 5 + ["nack"] * 3 + ["release", "bury", "extend"])
            part = chance.choice([None, chance.randrange(32)])
            machine.settle(which(), chance.randrange(99), part, how, chance.choice([None, 0, 0, 5]))

    def claim_next() -> None:
        if machine.leases:
            machine.claim_next(which(), chance.randrange(9), None, 3)

    def alter() -> None:
        lanes = chance.choice([None, [], ["k"], ["z"], ["k", "z"]])
        paused = chance.choice([None, None, None, True])
        machine.alter(lanes, chance.choice([None, 1, 3, 6]), paused)

    choices: dict[Callable[[], None], float] = {
        lambda: machine.publish(which(), header(), *some(), chance.choice(GROUPS)): 2,
        lambda: machine.publish_batch(
            which(),
            [header() for _ in range(chance.randrange(1, 8))],
            *some(),
            chance.choices(GROUPS, k=2),
            chance.random() < 0.5,
        ): 2,
        lambda: machine.publish_once(which(), chance.choice("ab")): 0.5,
        lambda: machine.claim(which(), None, chance.choice([1, 2, 5, 20])): 2,
        lambda: machine.claim(which(), {"k": 0}, chance.choice([1, 2, 20])): 3,
        lambda: machine.claim(which(), {"k": 1, "z": "b"}, chance.choice([1, 20])): 1,
        settle: 5,
        begin_or_end: 2,
        lambda: machine.dead_letters(
            which(),
            chance.choice([None, {"k": 0}]),
            chance.choice([None, 2]),
            chance.random() < 0.8,
        ): 0.5,
        alter: 0.5,
        lambda: machine.publish_elsewhere(which(), [header() for _ in range(3)]): 1,
        lambda: machine.alter_filter(chance.choice([None, {"k": 0}, {"z": "a"}])): 0.5,
        lambda: machine.resubscribe({"k": chance.randrange(3)}): 0.3,
        claim_next: 1,
        machine.maintain: 1,
        lambda: machine.wait(chance.choice([1, 1, 3, 11])): 1,
    }
    for step in chance.choices(list(choices), list(choices.values()), k=steps):
        step()
        machine.sound()


def walk_in_groups(machine: Model, chance: random.Random, steps: int) -> None:
    """Few messages of two groups that meet all the time: they die, come back, stand in line."""

    def publish() -> None:
        """Publish, mostly in a transaction that stays open while others consume."""
        delay, expiry = chance.choice([None] * 9 + [1]), chance.choice([None] * 5 + [4])
        which = chance.choice([0, 0, 1])
        if which == 0 and not machine.sessions[0].open:
            machine.begin_or_end(0, False, "commit")
        machine.publish(which, {}, 0, delay, expiry, chance.choice("gh"))

    def end() -> None:
        for which, session in enumerate(machine.sessions):
            if session.open:
                machine.begin_or_end(which, False, chance.choice(["commit", "commit", "rollback"]))

    def consume() -> None:
        which = chance.choice([1, 1, 1, 2])
        machine.claim(which, None, chance.choice([1, 5]))
        if machine.leases:
            how = chance.choice(["ack", "nack", "bury", "bury"])
            machine.settle(which, 0, None, how, chance.choice([0, 0, 2]))

    def dead_letters() -> None:
        n = chance.choice([None, None, None, 1])
        machine.dead_letters(chance.choice([1, 1, 2]), None, n, chance.random() < 0.9)

    choices: dict[Callable[[], None], float] = {
        publish: 3,
        end: 3,
        consume: 5,
        dead_letters: 1,
        lambda: machine.begin_or_end(2, False, "rollback"): 0.2,
        machine.maintain: 0.2,
        lambda: machine.wait(chance.choice([1, 3, 11])): 1,
    }
    for step in chance.choices(list(choices), list(choices.values()), k=steps):
        step()
        machine.sound()


def walker(connect: Connect, take: Callable[[Model, random.Random, int], None]) -> int:
    """Let some machines walk; how many filters have remembered something in the end."""
    walker = type("Walker", (Model,), {})
    walker.prepare(connect)  # type: ignore[attr-defined]
    remembered = 0
    first = int(os.environ.get("PGQ_SEED", "0"))
    for seed in range(first, first + WALKS):
        print(f"PGQ_SEED={seed}")  # shown by pytest when the walk fails
        chance = random.Random(seed)
        machine = walker()
        machine.begin(
            chance.choice([[], [], ["k"]]),
            chance.randrange(1, 5),
            chance.choice(["dead_letter", "discard"]),
            chance.choice(["release", "block"]),
        )
        take(machine, chance, 200)
        remembered += machine.observer.execute("select from pgq.filter_scan").rowcount
        machine.teardown()
    return remembered


def test_long_walks_in_groups_keep_the_promises(connect: Connect) -> None:
    walker(connect, walk_in_groups)


def test_long_walks_keep_the_promises(connect: Connect) -> None:
    remembered = walker(connect, walk)
    assert remembered or WALKS < 5, "no filter has remembered anything"
