"""Operations of owners, maintenance, and the passing of time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.driver import Driver, Refused, connections, filters
from model.promises import Place, matches


class Upkeep(Driver):
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
                session.facts[m] = replace(facts[m], revived=revived, fresh=False, untouched=False)
            self.done(session, before, self.lined_up(session, before, moved, Place("ready", 0)))
        else:
            self.done(session, before, dict.fromkeys(moved))

    @rule(
        lanes=st.none()
        | st.sampled_from([[], ["k"], ["z"], ["k", "z"], ["#k"], ["#z", "k"], ["auto"]]),
        set_size=st.none() | st.integers(1, 6),
        paused=st.sampled_from([None, None, True, False]),
    )
    def alter(self, lanes: list[str] | None, set_size: int | None, paused: bool | None) -> None:
        if self.fair and lanes == []:
            lanes = None  # lanes that take turns cannot be given up
        self.change(
            "select pgq.alter_queue(%s, lane_keys => %s, set_size => %s)",
            [self.queue, lanes, set_size],
        )
        self.laned = self.laned or bool(lanes)
        if paused is not None or self.paused:
            self.pause(pause=bool(paused))

    @rule(document=st.none() | filters)
    def alter_filter(self, document: dict[str, Any] | None) -> None:
        """Change the filter of the subscription; messages that were received stay."""
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
        """End the subscription, or begin it again; messages that were received stay."""
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
            if self.shut_out(session):
                return  # it would wait
            before = self.view(session.conn)
            session.conn.execute("call pgq.maintain()")
            self.done(session, before, {})
            left, orphans = self.look_aside(session.conn), self.promises.orphans(self.aside)
            if any(other.open for other in self.sessions):  # who may be publishing them
                orphans -= left.keys()
            self.put_aside(session, self.aside, dict.fromkeys(orphans))

    @rule(seconds=st.sampled_from([1, 3, 11, 40]))
    def wait(self, seconds: int) -> None:
        type(self).clock += seconds
        self.promises.now = self.now()
        self.observer.execute("select setval('clock', %s)", [int(self.now())])
