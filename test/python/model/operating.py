"""Operations of operators on waiting messages."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.driver import Driver, Refused, Session, connections, filters
from model.promises import Place, View, matches

WAITING = ("ready", "scheduled", "waiting")


class Operating(Driver):
    @rule(
        which=connections,
        verb=st.sampled_from(["cancel", "purge", "reschedule", "move", "move_back"]),
        document=st.none() | filters,
        part=st.none() | st.integers(0, 31),
        delay=st.sampled_from([0, 5]),
    )
    def operate(
        self,
        which: int,
        verb: str,
        document: dict[str, Any] | None,
        part: int | None,
        delay: int,
    ) -> None:
        """Cancel, move or reschedule matching messages, or messages by id."""
        session = self.sessions[which]
        if verb.startswith("move"):
            self.move(
                session,
                document,
                None if part is None else 1 + part % 3,
                verb == "move",
            )
            return
        before = self.view(session.conn)
        facts = self.known(session)
        ids = None
        if part is not None and verb != "purge":
            ids = [m for i, m in enumerate(sorted(before)) if part >> (i % 5) & 1]
        elif verb.startswith("cancel") and document is None:
            ids = sorted(before)
        wanted = [
            m
            for m, p in before.items()
            if p.state in WAITING
            and matches(document, facts[m].headers)
            and (ids is None or m in ids)
            and not (verb == "reschedule" and not delay and p.state == "ready")
        ]
        written = None if document is None else json.dumps(document)
        arguments: list[Any] = [self.queue, ids, written]
        if verb == "purge":
            statement, arguments = (
                "select pgq.purge(%s, %s::jsonb)",
                [self.queue, written],
            )
        elif verb.startswith("cancel"):
            statement = "select pgq.cancel(%s, %s, %s::jsonb)"
        else:
            statement = "select pgq.reschedule(%s, %s, %s::jsonb, delay => %s * interval '1 s')"
            arguments.append(delay)
        try:
            rows = self.perform(session, statement, arguments)
        except Refused:
            return
        if verb == "reschedule":
            self.rescheduled(session, before, wanted, delay, rows)
            return
        after = self.view(session.conn)
        gone = [m for m in wanted if m not in after]
        self.all_found(session, rows, gone, wanted)
        self.done(session, before, dict.fromkeys(gone))

    def all_found(
        self, session: Session, rows: list[Any], changed: list[int], wanted: list[int]
    ) -> None:
        assert rows == [(len(changed),)]
        if not any(other.open for other in self.sessions if other is not session):
            assert sorted(changed) == sorted(wanted), "not all were found"

    def rescheduled(
        self,
        session: Session,
        before: View,
        wanted: list[int],
        delay: int,
        rows: list[Any],
    ) -> None:
        facts, due = self.known(session), self.now() + delay
        after = self.view(session.conn)
        changes: dict[int, Place | None] = {}
        for m in wanted:
            was = before[m]
            if was.state == "waiting":
                session.facts[m] = replace(facts[m], due=due if delay else None)
                changes[m] = was
                continue
            place = Place("scheduled", was.attempt, due) if delay else Place("ready", was.attempt)
            if after.get(m) == place:
                session.facts[m] = replace(
                    facts[m], due=due if delay else None, fresh=False, untouched=False
                )
                changes[m] = place
        alone = not any(other.open for other in self.sessions if other is not session)
        assert rows == [(len(changes),)] or not alone
        assert not alone or len(changes) == len(wanted), "not all were found"
        self.done(session, before, changes)

    def move(
        self,
        session: Session,
        document: dict[str, Any] | None,
        n: int | None,
        away: bool,
    ) -> None:
        aside = self.aside_queue()
        before, parked = self.view(session.conn), self.view(session.conn, aside)
        facts = self.known(session)
        here, there = (before, parked) if away else (parked, before)
        wanted = [
            m
            for m, p in here.items()
            if p.state in WAITING and m not in there and matches(document, facts[m].headers)
        ]
        try:
            rows = self.perform(
                session,
                "select pgq.move(%s, %s, %s::jsonb, %s)",
                [
                    *((self.queue, aside) if away else (aside, self.queue)),
                    None if document is None else json.dumps(document),
                    n,
                ],
            )
        except Refused:
            return
        after, now_parked = self.view(session.conn), self.view(session.conn, aside)
        left, come = (after, now_parked) if away else (now_parked, after)
        moved = [m for m in wanted if m not in left]
        assert set(moved) <= come.keys(), "lost on the way"
        assert rows == [(len(moved),)]
        if not any(other.open for other in self.sessions if other is not session):
            assert len(moved) == len(wanted) if n is None else len(moved) == min(n, len(wanted))
        for m in moved:
            due = facts[m].due if here[m].state == "waiting" else here[m].until
            due = due if due is not None and due > self.now() else None
            session.facts[m] = replace(facts[m], due=due, fresh=False, untouched=False)
        if away:
            self.done(session, before, dict.fromkeys(moved))
            return
        changes: dict[int, Place | None] = {}
        for m in sorted(moved):
            due = session.facts[m].due
            place = Place("ready", 0) if due is None else Place("scheduled", 0, due)
            changes |= self.lined_up(session, before | places_after(changes), [m], place)
        self.done(session, before, changes)


def places_after(changes: dict[int, Place | None]) -> View:
    return {m: place for m, place in changes.items() if place is not None}
