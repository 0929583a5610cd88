"""The model: what a message may do by itself, and what holds for all of them at all times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_ATTEMPTS = 3
LEASE = 10
UNDER_WAY = ("ready", "scheduled", "leased")


def matches(document: dict[str, Any] | None, found: dict[str, Any]) -> bool:
    return all(key in found and found[key] == value for key, value in (document or {}).items())


@dataclass(frozen=True)
class Place:
    """Where a message is; until is when it is due, or when its lease ends."""

    state: str
    attempt: int
    until: float | None = None
    lease: int | None = None


@dataclass
class Facts:
    """What never changes about a message, apart from that a replay may revive it."""

    priority: int
    headers: dict[str, Any]
    expires: float | None
    group: str | None = None
    # When it is to be delivered, if that is not at once.
    due: float | None = None
    revived: bool = False
    # It has been nowhere else than among the ready.
    fresh: bool = True


View = dict[int, Place]
Known = dict[int, Facts]
# What an operation was told to do with messages; None: they are done.
Said = dict[int, Place | None]


def same(is_now: Place | None, may_be: Place | None) -> bool:
    """Equal, but for a due time that was left to chance."""
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


class Promises:
    """What a queue with this policy promises."""

    def __init__(self, on_expiry: str, on_dead: str, now: float) -> None:
        self.on_expiry = on_expiry
        # What is under way of a group keeps the others waiting; so does a dead letter that blocks.
        self.heads = (*UNDER_WAY, "dead") if on_dead == "block" else UNDER_WAY
        self.now = now

    def fate(self, place: Place, facts: Facts) -> list[Place | None]:
        """All that may become of a message by itself, up to now."""
        now, fates, i = self.now, [place], 0
        gone = False
        while i < len(fates):
            at, i = fates[i], i + 1
            due = at.until is not None and at.until <= now
            if at.state == "waiting":  # its turn may have come
                later = facts.due is not None and facts.due > now
                fates.append(Place("scheduled", 0, facts.due) if later else Place("ready", 0))
            elif at.state == "leased" and due:
                fates.append(Place("ready" if at.attempt < MAX_ATTEMPTS else "dead", at.attempt))
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

    def judge(self, before: View, after: View, said: Said, facts: Known) -> None:
        """Every difference was said, or is a message's own fate."""
        for message_id in before.keys() | after.keys() | said.keys():
            was, now_is = before.get(message_id), after.get(message_id)
            if message_id in said:
                expected: list[Place | None] = [said[message_id]]
            elif was is None:
                raise AssertionError(f"message {message_id} came from nowhere: {now_is}")
            else:
                expected = self.fate(was, facts[message_id])
            assert any(same(now_is, place) for place in expected), (
                f"message {message_id} was {was}, is {now_is}, may be {expected}"
            )

    def judge_lines(self, before: View, after: View, facts: Known) -> None:
        """Who left the line of a group were the first in it."""
        for group, line in members(before, facts, "waiting").items():
            left = [m for m in line if after.get(m, Place("gone", 0)).state != "waiting"]
            assert left == line[: len(left)], f"group {group} was {line}, left by {left}"

    def idle_groups(self, view: View, facts: Known) -> set[str]:
        """One of a group at a time is under way; the groups that wait for nobody."""
        heads = members(view, facts, *self.heads)
        for group, found in heads.items():
            assert len(found) == 1, f"of group {group} are under way: {found}"
        return members(view, facts, "waiting").keys() - heads.keys()
