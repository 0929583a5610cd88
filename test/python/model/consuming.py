"""Operations of consumers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.driver import Driver, Refused, Session, connections, filters, picks
from model.promises import LEASE, MAX_ATTEMPTS, Facts, Place, View, held, kept, matches


@dataclass(frozen=True)
class Choice:
    """A lease by its token or by its name, and all or some of its messages."""

    lease: int | None
    ids: list[int] | None
    # The queue and the key.
    name: tuple[str, str] | None = None

    @property
    def token(self) -> str:
        return "%s" if self.name is None else "pgq.named_lease(%s, %s)"

    @property
    def arguments(self) -> list[Any]:
        return [self.lease] if self.name is None else [*self.name]


class Consuming(Driver):
    @rule(which=connections, n=st.sampled_from([1, 2, 3, 20]))
    def claim_any(self, which: int, n: int) -> None:
        self.claim(which, None, n)

    @rule(which=connections, pick=picks, document=st.none() | filters, n=st.sampled_from([1, 3]))
    @precondition(lambda self: self.leases)
    def claim_next(self, which: int, pick: int, document: dict[str, Any] | None, n: int) -> None:
        """Acknowledge a lease and claim more in one call."""
        self.claim(which, document, n, self.choose(self.sessions[which], pick, None).lease)

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
        self.claimed(session, before, rows, document, n, ended, self.now() + LEASE)

    def claimed(
        self,
        session: Session,
        before: View,
        rows: list[Any],
        document: dict[str, Any] | None,
        n: int,
        ended: Iterable[int],
        until: float,
    ) -> None:
        """Check a claim that found these messages and ended others."""
        changes: dict[int, Place | None] = dict.fromkeys(ended)
        facts = self.known(session)
        assert len(rows) <= n
        assert len({row[0] for row in rows}) <= 1
        for lease, message_id, priority, attempt, header in rows:
            fact, was = facts[message_id], before[message_id]
            assert message_id not in changes, "twice in one claim"
            assert (priority, header) == (fact.priority, fact.headers)
            assert matches(document, header), "does not match the filter"
            assert not self.promises.expired(fact), "delivered after its time"
            ready = [p for p in self.promises.fate(was, fact) if p and p.state == "ready"]
            assert ready, f"message {message_id} was {was}: not to be had"
            assert attempt in {place.attempt + 1 for place in ready}
            changes[message_id] = Place("leased", attempt, until, lease)
            if lease not in self.leases:
                self.leases.append(lease)
        # A message whose turn came during the claim, because the head of its group had expired,
        # comes late.
        ordered = [row for row in rows if before[row[1]].state != "waiting"]
        if not self.laned:
            # First deliveries of one priority are in the order of publication; messages of groups
            # in a batch have their own sets.
            for grouped in (False, True):
                fresh = [
                    (-row[2], row[1])
                    for row in ordered
                    if facts[row[1]].fresh and (facts[row[1]].group is not None) == grouped
                ]
                assert fresh == sorted(fresh), "out of order"
        for row in rows:
            facts[row[1]].fresh = facts[row[1]].untouched = False
        # The sets of one priority are in order, and sets of a batch may overlap.
        assert [row[2] for row in ordered] == sorted((row[2] for row in ordered), reverse=True)
        if self.paused and not session.repeatable:
            assert not rows, "delivered while paused"
        after = self.done(session, before, changes)
        alone = not any(other.open for other in self.sessions if other is not session)
        # A set of suspects is delivered alone, however many messages were wanted.
        suspects = any(row[3] > 1 for row in rows) or self.suspects(session.conn)
        if rows and suspects:
            return
        # Where lanes take turns a claim may leave some of a lane to the next one.
        if rows and self.fair:
            return
        if len(rows) < n and alone and not self.paused and not session.repeatable:
            missed = [
                message_id
                for message_id, place in after.items()
                if matches(document, facts[message_id].headers)
                and not self.promises.expired(facts[message_id])
                and (place.state == "ready" or (not rows and self.available(message_id, place)))
            ]
            assert not missed, f"not found: {missed}"
            if not rows:  # then it has looked after the queue
                assert not self.stalls(session.conn), "a group was not moved on"

    def suspects(self, conn: psycopg.Connection) -> bool:
        return bool(conn.execute("select from pgq.ready where suspect limit 1").fetchall())

    def available(self, message_id: int, place: Place) -> bool:
        if place.state == "waiting" or self.overdue.get(message_id, -1) >= self.now():
            return False
        fates = self.promises.fate(place, self.facts.get(message_id) or Facts(0, {}, None))
        return any(p is not None and p.state == "ready" for p in fates)

    def choose(self, session: Session, pick: int, part: int | None) -> Choice:
        """Choose a lease, perhaps an ended one, and all, some or wrong ids."""
        lease = self.leases[-1 - pick % min(len(self.leases), 6)]
        return Choice(lease, self.some_of(session, lease, pick, part))

    def some_of(
        self, session: Session, lease: int | None, pick: int, part: int | None
    ) -> list[int] | None:
        if part is None:
            return None
        found = sorted(held(self.view(session.conn), lease))
        ids = [m for i, m in enumerate(found) if part >> (i % 5) & 1]
        if part % 7 == 0 and self.facts:
            ids.append(sorted(self.facts)[pick % len(self.facts)])
        return ids

    def finish_some(
        self, session: Session, choice: Choice, statement: str, arguments: list[Any]
    ) -> tuple[View, list[int]] | None:
        before = self.view(session.conn)
        found = list(held(before, choice.lease))
        ids = choice.ids
        good = bool(found) if ids is None else set(ids) <= set(found)
        if choice.name is not None and choice.lease is None:
            good = False
        try:
            rows = self.perform(
                session,
                statement.format(lease=choice.token),
                [*choice.arguments, ids, *arguments],
                "QU003",
            )
        except Refused as refused:
            if str(refused) == "QU003" and good:
                raise AssertionError("a good token was refused") from None
            return None
        ended = found if ids is None else list(dict.fromkeys(ids))
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
        session = self.sessions[which]
        self.settle_choice(session, self.choose(session, pick, part), how, delay)

    def settle_choice(self, session: Session, choice: Choice, how: str, delay: int | None) -> None:
        if how == "ack":
            self.ack(session, choice)
        elif how == "bury":
            self.bury(session, choice)
        elif how == "extend":
            self.extend(session, choice, 30 if delay else None)
        else:
            self.nack(session, choice, delay, release=how == "release")

    def ack(self, session: Session, choice: Choice) -> None:
        if ended := self.finish_some(session, choice, "select pgq.ack({lease}, %s)", []):
            self.done(session, ended[0], dict.fromkeys(ended[1]))

    def nack(self, session: Session, choice: Choice, delay: int | None, release: bool) -> None:
        verb = "release" if release else "nack"
        if release:
            delay = delay or 0
        ended = self.finish_some(
            session,
            choice,
            f"select pgq.{verb}({{lease}}, %s, delay => %s * interval '1 s')",
            [delay],
        )
        if ended is None:
            return
        before, ids = ended
        changes = self.retreated(session, before, ids)
        for message_id in set(ids) - changes.keys():
            attempt = before[message_id].attempt - release
            if not release and attempt >= MAX_ATTEMPTS:
                changes[message_id] = Place("dead", attempt)
            elif delay == 0:
                changes[message_id] = Place("ready", attempt)
            else:
                due = None if delay is None else self.now() + delay
                changes[message_id] = Place("scheduled", attempt, due)
        self.done(session, before, changes)

    def bury(self, session: Session, choice: Choice) -> None:
        if ended := self.finish_some(
            session, choice, "select pgq.bury({lease}, %s, 'no good')", []
        ):
            changes: dict[int, Place | None] = {}
            if "dead" in self.promises.heads:  # before its turn none can block its group
                changes = self.retreated(session, *ended)
            for m in set(ended[1]) - changes.keys():
                changes[m] = Place("dead", ended[0][m].attempt)
            self.done(session, ended[0], changes)

    def retreated(self, session: Session, before: View, ids: list[int]) -> dict[int, Place | None]:
        """Return messages that return to their group backlog because these have failed."""
        facts = self.known(session)
        waits = self.promises.retreat(before, ids, facts)
        for message_id, due in session.conn.execute(
            "select message_id, extract(epoch from due_at - timestamptz '2025-02-01 00:00:00+00')"
            "::float8 from pgq.group_line where message_id = any (%s) and due_at is not null",
            [sorted(waits)],
        ).fetchall():
            session.facts[message_id] = replace(facts[message_id], due=due)
        return dict.fromkeys(waits, Place("waiting", 0))

    def extend(self, session: Session, choice: Choice, longer: int | None) -> None:
        before = self.view(session.conn)
        found = held(before, choice.lease)
        try:
            rows = self.perform(
                session,
                f"select extract(epoch from pgq.extend({choice.token}, %s * interval '1 s')"
                " - timestamptz '2025-02-01 00:00:00+00')::float8",
                [*choice.arguments, longer],
                "QU003",
            )
        except Refused as refused:
            if str(refused) == "QU003" and found:
                raise AssertionError("a good token was refused") from None
            return
        assert choice.lease is not None, "a stale name was accepted"
        assert found, "a stale token was accepted"
        until = max([self.now() + (longer or LEASE), *(p.until or 0 for p in found.values())])
        assert rows == [(None if until == math.inf else until,)]
        self.done(session, before, kept(before, choice.lease, until))
