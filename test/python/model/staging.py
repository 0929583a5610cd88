"""Staged messages, which are published together or not at all."""

from __future__ import annotations

import json
from itertools import count
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.driver import WRITERS, Refused, Session, connections, groups, headers
from model.promises import DAY, Aside, staged
from model.publishing import Publishing

TOKENS = [0, 1, 2]
tokens = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=3, unique=True)


class Staging(Publishing):
    positions = count(1)

    def tokens_of(self, numbers: list[int]) -> list[str]:
        return [str(uuid5(NAMESPACE_URL, f"{self.queue} {number}")) for number in numbers]

    @rule(
        which=connections,
        number=st.sampled_from(TOKENS),
        batch=st.lists(headers, min_size=1, max_size=4),
        group=groups,
        age=st.sampled_from([0, 0, DAY - 5]),
    )
    def stage(
        self, which: int, number: int, batch: list[dict[str, Any]], group: str | None, age: int
    ) -> None:
        """Stage messages under a token; no queue receives them."""
        session = self.sessions[which]
        if self.shut_out(session):
            return
        before, aside = self.view(session.conn), self.seen_aside(session)
        (token,) = self.tokens_of([number])
        at = self.now() - age
        changes: Aside = {("staged", token, next(self.positions)): [h, group, at] for h in batch}
        try:
            self.perform(
                session,
                "insert into pgq.staged"
                " (token, position, topic, headers, payload, group_key, staged_at)"
                " select %s, p, %s, h, '1', %s, pgq.now() - %s * interval '1 s'"
                " from unnest(%s::int[], %s::jsonb[]) u (p, h) returning position",
                [
                    token, self.queue, group, age, [key[2] for key in changes],
                    [json.dumps(header) for header in batch],
                ],
            )  # fmt: skip
        except Refused:
            return
        self.done(session, before, {})
        self.put_aside(session, aside, changes)

    @rule(
        which=connections,
        numbers=tokens,
        missing=st.sampled_from([None, 0, 0, 1]),
        writer=st.none() | st.sampled_from(WRITERS),
        later=st.sampled_from([0, 1, 1, -1]),
    )
    def publish_staged(
        self, which: int, numbers: list[int], missing: int | None, writer: str | None, later: int
    ) -> None:
        """Publish staged messages, perhaps as the next, the same or an older epoch of a writer."""
        session = self.sessions[which]
        if self.shut_out(session):
            return
        before, aside = self.view(session.conn), self.seen_aside(session)
        wanted = self.tokens_of(numbers)
        size = None if missing is None else len(staged(aside, wanted)) + missing
        epoch = None
        if writer is not None:
            name = f"{self.queue} {writer}"
            last = aside.get(("writer", name, 0)) or [0]
            epoch = (name, last[0] + later)
        expected = self.promises.publish_staged(aside, wanted, size, epoch)
        try:
            rows = self.perform(
                session,
                "select pgq.publish_staged(%s::uuid[], %s, %s, %s)",
                [wanted, size, *(epoch or (None, None))],
                "55000",
            )
        except Refused as refused:
            if str(refused) == "55000":
                assert expected is None, "what is staged was refused"
            return
        assert expected is not None, "published, and some is missing or of the past"
        published, changes = expected
        assert rows == [(len(published),)]
        ids = sorted(self.view(session.conn).keys() - before.keys())
        assert len(ids) == len(published), "what was staged is not what came"
        facts = [value for value in published.values() if value is not None]
        if ids:
            self.published(
                session, before, ids, [f[0] for f in facts], 0, None, None, [f[1] for f in facts]
            )
        else:
            self.done(session, before, {})
        self.put_aside(session, aside, changes)
        self.note_emptied(session)

    def note_emptied(self, session: Session) -> None:
        """Whether the call truncated the table, which blocks others until the commit."""
        row = session.conn.execute(
            "select count(*) from pg_locks where relation = 'pgq.staged'::regclass"
            " and mode = 'AccessExclusiveLock' and pid = pg_backend_pid()"
        ).fetchone()
        assert row is not None
        session.emptied = session.open and row[0] > 0

    @rule(which=connections, numbers=tokens)
    def discard_staged(self, which: int, numbers: list[int]) -> None:
        session = self.sessions[which]
        if self.shut_out(session):
            return
        before, aside = self.view(session.conn), self.seen_aside(session)
        gone = staged(aside, self.tokens_of(numbers))
        try:
            rows = self.perform(
                session, "select pgq.discard_staged(%s::uuid[])", [self.tokens_of(numbers)]
            )
        except Refused:
            return
        assert rows == [(len(gone),)]
        self.done(session, before, {})
        self.put_aside(session, aside, dict.fromkeys(gone))
