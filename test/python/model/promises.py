"""The model: what may happen to a message without an operation, and invariants."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

MAX_ATTEMPTS = 3
LEASE = 10
DEDUP_WINDOW = 100
DAY = 86400
UNDER_WAY = ("ready", "scheduled", "leased")


def matches(document: dict[str, Any] | None, found: dict[str, Any]) -> bool:
    return all(key in found and found[key] == value for key, value in (document or {}).items())


@dataclass(frozen=True)
class Place:
    """The state of a message; `until` is when it is due or its lease expires (infinity: never)."""

    state: str
    attempt: int
    until: float | None = None
    lease: int | None = None


@dataclass
class Facts:
    """The constant properties of a message, except that a replay may revive it."""

    priority: int
    headers: dict[str, Any]
    expires: float | None
    group: str | None = None
    # When it is to be delivered, if that is not at once.
    due: float | None = None
    revived: bool = False
    # It has been nowhere else than among the ready.
    fresh: bool = True
    # Its dedup key, and when the key's window begins.
    key: tuple[str, float] | None = None
    # Nobody has claimed, moved, rescheduled or replayed it.
    untouched: bool = True


View = dict[int, Place]
Known = dict[int, Facts]
# What an operation was told to do with messages; None: they are done.
Changes = dict[int, Place | None]
# Which lease has which name; one that is over may be in it.
Names = dict[int, Hashable]
# What is no message yet, or says how far somebody is; None: it is gone.
#   ("staged", token, position): [headers, group, staged at]
#   ("writer", name, 0): [epoch]
#   ("stream", consumer, 0): [the last finished batch, owner, until]
Aside = dict[tuple[str, str, int], list[Any] | None]


def same(is_now: Place | None, may_be: Place | None) -> bool:
    """Whether two states are equal; a random due time is ignored."""
    if is_now is None or may_be is None:
        return is_now is may_be
    if may_be.state == "scheduled" and may_be.until is None:
        return (is_now.state, is_now.attempt) == (may_be.state, may_be.attempt)
    return is_now == may_be


def members(view: View, facts: Known, *states: str) -> dict[str, list[int]]:
    """The messages of each group that are in one of these states, in order."""
    found: dict[str, list[int]] = {}
    for message_id in sorted(view):
        group = facts[message_id].group
        if group is not None and view[message_id].state in states:
            found.setdefault(group, []).append(message_id)
    return found


def held(view: View, lease: int | None) -> dict[int, Place]:
    """The messages of a lease."""
    return {m: p for m, p in view.items() if lease is not None and p.lease == lease}


def named(view: View, names: Names, key: Hashable) -> int | None:
    """Return the lease of a name, as long as it holds messages."""
    leases = {p.lease for p in view.values() if p.lease is not None and names.get(p.lease) == key}
    assert len(leases) <= 1, f"{key} is the name of {leases}"
    return leases.pop() if leases else None


def reading_order(view: View, facts: Known, lease: int | None) -> list[int]:
    """Return the messages of a lease in the order in which they are read."""
    found = held(view, lease)
    return sorted(found, key=lambda m: (-facts[m].priority, found[m].attempt == 1, m))


def kept(before: View, lease: int, until: float) -> Changes:
    """Return the messages of a lease after an extension, which never shortens the lease."""
    return {
        m: Place("leased", p.attempt, max(until, p.until or 0), lease)
        for m, p in held(before, lease).items()
    }


def apply(aside: Aside, changes: Aside) -> Aside:
    return {key: value for key, value in (aside | changes).items() if value is not None}


def staged(aside: Aside, tokens: list[str]) -> Aside:
    """Return what is staged under these tokens, in the order of the tokens."""
    found = [key for key in aside if key[0] == "staged" and key[1] in tokens]
    return {key: aside[key] for key in sorted(found, key=lambda k: (tokens.index(k[1]), k[2]))}


class Promises:
    """The promises of a queue with this policy."""

    def __init__(self, on_expiry: str, on_dead: str, now: float) -> None:
        self.on_expiry = on_expiry
        # What is under way of a group keeps the others waiting; so does a dead letter that blocks.
        self.heads = (*UNDER_WAY, "dead") if on_dead == "block" else UNDER_WAY
        self.now = now
        # Leases that may hold several messages of a group: the head and others behind it.
        self.runs: set[int | None] = set()

    def fate(self, place: Place, facts: Facts) -> list[Place | None]:
        """Return all states that a message may have reached without an operation."""
        now, fates, i = self.now, [place], 0
        gone = False
        while i < len(fates):
            at, i = fates[i], i + 1
            due = at.until is not None and at.until <= now
            if at.state == "waiting":  # its turn may have come
                later = facts.due is not None and facts.due > now
                fates.append(Place("scheduled", 0, facts.due) if later else Place("ready", 0))
            elif at.state == "leased" and due:
                # Together with others it comes back, whatever its attempts: see judge.
                fates.append(Place("ready", at.attempt))
                if at.attempt >= MAX_ATTEMPTS:
                    fates.append(Place("dead", at.attempt))
                if at.lease in self.runs and facts.group is not None:
                    fates.append(Place("waiting", 0))
            elif at.state == "scheduled" and due:
                fates.append(Place("ready", at.attempt))
            elif at.state == "ready" and self.expired(facts):
                if self.on_expiry == "discard":
                    gone = True
                else:
                    fates.append(Place("dead", at.attempt))
        return [*fates, None] if gone else list(fates)

    def expired(self, facts: Facts) -> bool:
        return facts.expires is not None and facts.expires <= self.now and not facts.revived

    def judge(self, before: View, after: View, changes: Changes, facts: Known) -> None:
        """Check that every difference is an expected change, or an event that may always happen."""
        for message_id in before.keys() | after.keys() | changes.keys():
            was, now_is = before.get(message_id), after.get(message_id)
            if message_id in changes:
                expected: list[Place | None] = [changes[message_id]]
            elif was is None:
                raise AssertionError(f"message {message_id} came from nowhere: {now_is}")
            else:
                expected = self.fate(was, facts[message_id])
            assert any(same(now_is, place) for place in expected), (
                f"message {message_id} was {was}, is {now_is}, may be {expected}"
            )
            if message_id not in changes and was and now_is and was.state == "leased":
                alone = len(held(before, was.lease)) == 1
                expired = self.expired(facts[message_id])
                assert now_is.state != "dead" or alone or expired, "dead for another's timeout"
                last = was.attempt >= MAX_ATTEMPTS
                assert now_is.state != "ready" or not (alone and last), "outlived its attempts"

    def judge_lines(self, before: View, after: View, changes: Changes, facts: Known) -> None:
        """Check that messages leave a group backlog in order, unless they were taken out of it."""
        taken = {m for m, place in changes.items() if place is None}
        for group, waiting in members(before, facts, "waiting").items():
            line = [m for m in waiting if m not in taken]
            left = [m for m in line if after.get(m, Place("gone", 0)).state != "waiting"]
            assert left == line[: len(left)], f"group {group} was {line}, left by {left}"

    def idle_groups(self, view: View, facts: Known) -> set[str]:
        """Check that a group has one message or run in progress; return the idle groups."""
        heads = members(view, facts, *self.heads)
        for group, found in heads.items():
            leases = {view[m].lease for m in found}
            is_run = len(leases) == 1 and leases <= self.runs
            assert len(found) == 1 or is_run, f"of group {group} are under way: {found}"
        return members(view, facts, "waiting").keys() - heads.keys()

    def retreat(self, before: View, ids: list[int], facts: Known) -> set[int]:
        """Return the messages that wait again when these fail: later messages of their groups."""
        waits: set[int] = set()
        for group, failed in members({m: before[m] for m in ids}, facts, "leased").items():
            lease = before[failed[0]].lease
            if lease in self.runs:
                _, *others = members(held(before, lease), facts, "leased")[group]
                waits |= {m for m in others if m >= failed[0]}
        return waits

    def publish_staged(
        self, aside: Aside, tokens: list[str], size: int | None, epoch: tuple[str, int] | None
    ) -> tuple[Aside, Aside] | None:
        """Return what is published, and the other changes; None if the call is refused."""
        found = staged(aside, tokens)
        changes: Aside = dict.fromkeys(found)
        if epoch is not None:
            key = ("writer", epoch[0], 0)
            last = aside.get(key)
            if last is not None and last[0] >= epoch[1]:
                return ({}, changes) if last[0] == epoch[1] else None
            changes[key] = [epoch[1]]
        return (found, changes) if size in (None, len(found)) else None

    def orphans(self, aside: Aside) -> set[tuple[str, str, int]]:
        """Return messages that were staged too long ago."""
        return {
            key
            for key, value in aside.items()
            if value is not None and key[0] == "staged" and value[2] < self.now - DAY
        }

    def may_own(self, stream: list[Any] | None, owner: str) -> bool:
        """Whether an owner may take a stream's name: it is free, its own, or has expired."""
        return stream is None or stream[1] in (None, owner) or stream[2] <= self.now
