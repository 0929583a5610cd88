"""Named claims, and the readers of a lease."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.consuming import Choice, Consuming
from model.driver import Refused, connections, filters, picks
from model.promises import LEASE, held, kept, named, reading_order

KEYS = ["a", "b"]
keys = st.sampled_from(KEYS)


class Naming(Consuming):
    @rule(
        which=connections,
        key=keys,
        document=st.none() | filters,
        n=st.sampled_from([1, 3, 20]),
        lease=st.sampled_from([None, 5, 30]),
        unread=st.booleans(),
        runs=st.booleans(),
    )
    def claim_named(
        self,
        which: int,
        key: str,
        document: dict[str, Any] | None,
        n: int,
        lease: int | None,
        unread: bool,
        runs: bool,
    ) -> None:
        """Claim under a name, or hold: the same messages until they are done."""
        session = self.sessions[which]
        before = self.view(session.conn)
        if session.repeatable and named(before, self.names, key) is None:
            return  # an old snapshot cannot tell whether somebody has taken the name since
        wanted = [self.queue, None if document is None else json.dumps(document), n, lease, key]
        columns = "lease_id, id, priority, attempt, headers"
        try:
            if unread:
                rows = self.perform(
                    session,
                    "select lease_id, size from pgq.hold(%s, filter => %s::jsonb, n => %s,"
                    " lease => %s * interval '1 s', key => %s, runs => %s)",
                    [*wanted, runs],
                )
            else:
                rows = self.perform(
                    session,
                    f"select {columns} from pgq.claim(%s, %s::jsonb, %s, %s * interval '1 s', %s)",
                    wanted,
                )
            if unread and rows:
                (token, size), *more = rows
                assert not more, "a name belongs to two claims"
                rows = self.perform(session, f"select {columns} from pgq.leased(%s)", [token])
                assert len(rows) == size
        except Refused:
            return
        until = self.now() + (LEASE if lease is None else lease)
        if unread and lease is None:
            until = math.inf
        known = named(before, self.names, key)
        if known is None:
            for row in rows:
                self.names[row[0]] = key
                self.promises.runs |= {row[0]} if unread and runs else set()
            self.claimed(session, before, rows, document, n, [], until)
            return
        facts = self.known(session)
        ids = reading_order(before, facts, known)
        assert [(row[0], row[1]) for row in rows] == [(known, m) for m in ids]
        for _, message_id, priority, _, header in rows:
            assert (priority, header) == (facts[message_id].priority, facts[message_id].headers)
        self.done(session, before, kept(before, known, until))

    @rule(
        which=connections,
        key=keys,
        pick=picks,
        part=st.none() | st.integers(0, 31),
        how=st.sampled_from(["ack", "ack", "nack", "release", "bury", "extend"]),
        delay=st.sampled_from([None, 0, 5]),
    )
    def settle_named(
        self, which: int, key: str, pick: int, part: int | None, how: str, delay: int | None
    ) -> None:
        """End a named claim, as by the token."""
        session = self.sessions[which]
        lease = named(self.view(session.conn), self.names, key)
        ids = self.some_of(session, lease, pick, part)
        self.settle_choice(session, Choice(lease, ids, (self.queue, key)), how, delay)

    @rule(which=connections, pick=picks, of=st.sampled_from([1, 2, 3, 5]))
    @precondition(lambda self: self.leases)
    def read(self, which: int, pick: int, of: int) -> None:
        """Read a lease whole, and in parts of about one size."""
        session = self.sessions[which]
        before = self.view(session.conn)
        lease = self.choose(session, pick, None).lease
        found = held(before, lease)
        try:
            rows = self.perform(session, "select id, attempt from pgq.leased(%s)", [lease], "QU003")
            assert found, "a stale token was accepted"
            ids = reading_order(before, self.known(session), lease)
            assert rows == [(m, found[m].attempt) for m in ids], "not its messages in their order"
            rows = self.perform(
                session,
                "select low, high, size, attempt, grouped from pgq.lease_parts(%s, %s)",
                [lease, of],
                "QU003",
            )
        except Refused as refused:
            if str(refused) == "QU003" and found:
                raise AssertionError("a good token was refused") from None
            return
        assert len(rows) == min(of, len(found))
        parts = [sum(low <= m < high for m in found) for low, high, *_ in rows]
        assert parts == [size for _, _, size, *_ in rows], "a part has another size"
        attempts = {state.attempt for state in found.values()}
        assert {attempt for *_, attempt, _ in rows} == (
            attempts if len(attempts) == 1 else {None}
        ), "parts do not tell the attempt"
        assert sum(parts) == len(found), "parts are not a partition"
        assert max(parts) - min(parts) <= 1
        self.done(session, before, {})
