"""What publishers do."""

from __future__ import annotations

import json
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
from model.promises import Facts, Place, View, matches


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
