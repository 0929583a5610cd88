"""Operations of publishers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.driver import (
    Driver,
    Refused,
    Session,
    connections,
    delays,
    expiries,
    groups,
    headers,
    priorities,
)
from model.promises import DEDUP_WINDOW, Facts, Known, Place, View, matches


class Publishing(Driver):
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

    @rule(which=connections, batch=st.lists(headers, min_size=1, max_size=4))
    def publish_elsewhere(self, which: int, batch: list[dict[str, Any]]) -> None:
        """Publish to the topic of the filtered subscription, or to an unknown topic."""
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
        changes: dict[int, Place | None] = {}
        for (message_id,), header in zip(rows, batch, strict=True):
            if matches(self.wanted, header):
                session.facts[message_id] = Facts(0, header, None)
                changes[message_id] = Place("ready", 0)
        self.done(session, before, changes)

    @rule(which=connections, key=st.sampled_from(["a", "b"]), delay=delays)
    def publish_once(self, which: int, key: str, delay: int | None) -> None:
        """Publish with a dedup key: the queue keeps, replaces or postpones the earlier message."""
        session = self.sessions[which]
        before, facts = self.view(session.conn), self.known(session)
        rows = self.attempt(
            session,
            "select pgq.publish(%s, '1', delay => %s * interval '1 s', dedup_key => %s)",
            [self.queue, delay, key],
        )
        if not rows:
            return  # refused
        message_id = rows[0][0]
        assert message_id is not None
        due = self.now() + (delay or 0)
        found = self.waiting_for(session, before, key)
        if message_id not in facts:
            changes: dict[int, Place | None] = {
                message_id: Place("scheduled", 0, due) if delay else Place("ready", 0)
            }
            session.facts[message_id] = Facts(
                0, {}, None, due=due if delay else None, fresh=not delay, key=(key, due)
            )
            if self.dedup == "replace":
                after = self.view(session.conn)
                gone = [m for m in found if m not in after]
                assert len(gone) <= 1
                changes |= dict.fromkeys(gone)
            if self.must_find(session, before, facts, key):
                assert len(changes) == 2, "the message with the key was to be replaced or postponed"
        elif self.dedup == "postpone":
            assert message_id in found, "postponed, but it did not wait"
            due = max(due, before[message_id].until or 0)
            later = due > self.now()
            changes = {message_id: Place("scheduled", 0, due) if later else Place("ready", 0)}
            if later:
                session.facts[message_id] = replace(
                    facts[message_id], due=due, fresh=False, key=(key, due)
                )
            else:
                session.facts[message_id] = replace(facts[message_id], key=(key, due))
        else:
            assert self.dedup == "keep", "dropped, but the queue replaces"
            changes = {}  # it was published before: nothing is delivered
        self.done(session, before, changes)

    def waiting_for(self, session: Session, before: View, key: str) -> list[int]:
        """The messages with a dedup key that may be replaced or postponed."""
        facts = self.known(session)
        return [
            m
            for m, p in before.items()
            if (held := facts[m].key) and held[0] == key and p.attempt == 0
            if p.state in ("ready", "scheduled")
        ]

    def must_find(self, session: Session, before: View, facts: Known, key: str) -> bool:
        """Whether the last message with the key waits, and no other session can have it."""
        last = max(
            (m for m, known in facts.items() if known.key and known.key[0] == key), default=0
        )
        if self.dedup == "keep" or last not in before or session.repeatable:
            return False
        _, since = facts[last].key or ("", 0)
        return (
            last in self.waiting_for(session, before, key)
            and facts[last].untouched
            and self.now() < since + DEDUP_WINDOW
            and not any(other.open for other in self.sessions if other is not session)
        )
