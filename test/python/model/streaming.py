"""Streams: consumers with numbered batches, and a name with one owner."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.consuming import Consuming
from model.driver import Refused, connections, filters
from model.promises import Aside, Place, View, held, kept, named

CONSUMERS = ["s", "t"]
OWNERS = ["one", "two"]
consumers = st.sampled_from(CONSUMERS)
owners = st.sampled_from(OWNERS)


class Streaming(Consuming):
    @rule(
        which=connections,
        consumer=consumers,
        owner=owners,
        timeout=st.sampled_from([2, 30]),
        lease=st.sampled_from([None, 30]),
    )
    def stream_begin(
        self, which: int, consumer: str, owner: str, timeout: int, lease: int | None
    ) -> None:
        session = self.sessions[which]
        if self.shut_out(session):
            return
        before, aside = self.view(session.conn), self.seen_aside(session)
        stream = aside.get(("stream", consumer, 0))
        try:
            rows = self.perform(
                session,
                "select pgq.stream_begin(%s, %s, %s, %s * interval '1 s', %s * interval '1 s')",
                [self.queue, consumer, owner, timeout, lease],
                "55006",
            )
        except Refused as refused:
            if str(refused) == "55006":
                assert not self.promises.may_own(stream, owner), "a free name was refused"
            return
        assert self.promises.may_own(stream, owner), "a name has two owners"
        batch = stream[0] if stream is not None else 0
        assert rows == [(batch,)]
        token = named(before, self.names, (consumer, batch + 1))
        changes = {}
        if lease is not None and token is not None:
            changes = kept(before, token, self.now() + lease)
        self.done(session, before, changes)
        until = self.now() + timeout
        self.put_aside(session, aside, {("stream", consumer, 0): [batch, owner, until]})

    def batches(self, before: View, consumer: str, first: int, last: int) -> dict[int, Place]:
        """Return the messages in the batches of a stream."""
        found: dict[int, Place] = {}
        for batch in range(first, last + 1):
            found |= held(before, named(before, self.names, (consumer, batch)))
        return found

    @rule(
        which=connections,
        consumer=consumers,
        owner=owners,
        ahead=st.sampled_from([0, 1, 1, 1, 2, 2, 3]),
        document=st.none() | filters,
        n=st.sampled_from([1, 3, 20]),
        lease=st.sampled_from([None, None, 30]),
        runs=st.booleans(),
    )
    def stream_claim(
        self,
        which: int,
        consumer: str,
        owner: str,
        ahead: int,
        document: dict[str, Any] | None,
        n: int,
        lease: int | None,
        runs: bool,
    ) -> None:
        """Claim a batch and finish those before it."""
        session = self.sessions[which]
        if self.shut_out(session):
            return
        before, aside = self.view(session.conn), self.seen_aside(session)
        finished, owned_by, until = aside.get(("stream", consumer, 0)) or [0, None, 0]
        batch = finished + ahead
        if session.repeatable and named(before, self.names, (consumer, batch)) is None:
            return  # an old snapshot cannot tell whether somebody has claimed it since
        arguments = [self.queue, consumer, batch]
        try:
            rows = self.perform(
                session,
                "select * from pgq.stream_claim(%s, %s, batch => %s, owner => %s,"
                " filter => %s::jsonb, n => %s, lease => %s * interval '1 s', runs => %s)",
                [
                    *arguments, owner, None if document is None else json.dumps(document), n, lease,
                    runs,
                ],
                "55006",
                "QU003",
            )  # fmt: skip
            again = self.perform(session, "select * from pgq.stream_batch(%s, %s, %s)", arguments)
            assert again == rows, "another batch"
            if rows:
                (token, size), *more = rows
                assert not more, "a batch has two leases"
                rows = self.perform(
                    session,
                    "select lease_id, id, priority, attempt, headers from pgq.leased(%s)",
                    [token],
                )
                assert len(rows) == size
        except Refused as refused:
            if str(refused) == "55006":
                assert owned_by != owner, "the owner was refused"
            elif str(refused) == "QU003":
                assert batch <= finished, "a good batch was refused"
            return
        assert owned_by == owner, "somebody else has claimed a batch"
        assert batch > finished, "a batch was claimed after it was finished"
        ended = self.batches(before, consumer, finished + 1, batch - 1)
        ends = math.inf if lease is None else self.now() + lease
        known = named(before, self.names, (consumer, batch))
        if known is None:
            for row in rows:
                self.names[row[0]] = (consumer, batch)
                self.promises.runs |= {row[0]} if runs else set()
            self.claimed(session, before, rows, document, n, ended, ends)
        else:
            assert {row[0] for row in rows} == {known}
            assert {row[1] for row in rows} == held(before, known).keys()
            self.done(session, before, dict.fromkeys(ended) | kept(before, known, ends))
        self.put_aside(session, aside, {("stream", consumer, 0): [batch - 1, owner, until]})

    @rule(which=connections, consumer=consumers, owner=owners, ahead=st.sampled_from([0, 1, 1, 2]))
    def stream_finish(self, which: int, consumer: str, owner: str, ahead: int) -> None:
        session = self.sessions[which]
        if self.shut_out(session):
            return
        before, aside = self.view(session.conn), self.seen_aside(session)
        finished, owned_by, until = aside.get(("stream", consumer, 0)) or [0, None, 0]
        try:
            rows = self.perform(
                session,
                "select pgq.stream_finish(%s, %s, %s, %s)",
                [self.queue, consumer, owner, finished + ahead],
                "55006",
            )
        except Refused as refused:
            if str(refused) == "55006":
                assert owned_by != owner, "the owner was refused"
            return
        assert owned_by == owner, "somebody else has finished a batch"
        ended = self.batches(before, consumer, finished + 1, finished + ahead)
        assert rows == [(len(ended),)]
        self.done(session, before, dict.fromkeys(ended))
        changes: Aside = {("stream", consumer, 0): [finished + ahead, owner, until]}
        self.put_aside(session, aside, changes)

    @rule(which=connections, consumer=consumers, owner=owners)
    def stream_end(self, which: int, consumer: str, owner: str) -> None:
        """Give the name away; what is claimed stays claimed."""
        session = self.sessions[which]
        if self.shut_out(session):
            return
        before, aside = self.view(session.conn), self.seen_aside(session)
        stream = aside.get(("stream", consumer, 0))
        try:
            rows = self.perform(
                session, "select pgq.stream_end(%s, %s, %s)", [self.queue, consumer, owner]
            )
        except Refused:
            return
        owned = stream is not None and stream[1] == owner
        assert rows == [(owned,)]
        self.done(session, before, {})
        changes: Aside = {}
        if owned and stream is not None:
            changes = {("stream", consumer, 0): [stream[0], None, stream[2]]}
        self.put_aside(session, aside, changes)
