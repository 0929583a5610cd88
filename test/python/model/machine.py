"""All operations, and the invariants after each step."""

from __future__ import annotations

from collections import Counter

from hypothesis.stateful import invariant

from model.naming import Naming
from model.operating import Operating
from model.promises import UNDER_WAY, members
from model.staging import Staging
from model.streaming import Streaming
from model.upkeep import Upkeep


class Machine(Staging, Naming, Streaming, Operating, Upkeep):
    @invariant()
    def sound(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert self.view(self.observer) == self.committed
        if not self.shut_out(None):
            assert self.look_aside(self.observer) == self.aside
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
            session.forget()
        if not hasattr(self, "queue"):
            return
        if self.view(self.observer) == self.committed:  # else it has failed already
            self.drain()
            self.check()
        self.observer.execute("delete from pgq.staged")
        for queue in (self.queue, self.aside_queue()):
            self.observer.execute("select pgq.drop_queue(%s, force => true)", [queue])

    def drain(self) -> None:
        """Check that all messages that are not dead can be delivered in the end."""
        self.pause(pause=False)
        # Leases that never expire are released explicitly.
        self.observer.execute(
            "select pgq.release(lease_id) from pgq.leases where queue = %s and until is null",
            [self.queue],
        )
        for _ in range(100):
            self.wait(seconds=400)
            lease = self.observer.execute(
                "select max(lease_id), count(*) from pgq.claim(%s, n => 10)", [self.queue]
            ).fetchone()
            assert lease is not None
            if lease[0] is not None:
                self.observer.execute("select pgq.ack(%s)", [lease[0]])
                continue
            # A dead letter may block its group.
            waiting = members(self.view(self.observer), self.facts, "waiting")
            if not waiting or self.promises.heads == UNDER_WAY:
                break
            self.observer.execute("select pgq.discard(%s)", [self.queue])
        self.committed = self.view(self.observer)
        assert {place.state for place in self.committed.values()} <= {"dead"}
