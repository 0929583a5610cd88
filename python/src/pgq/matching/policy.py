"""Policies: conditions in the lists of SNS and EventBridge, which one object must meet together.

In an array of objects, one and the same object must meet all conditions below a common key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgq.matching.values import flat, scalar
from pgq.matching.world import Location, Passes, Test

__all__ = ["Condition", "Part", "Policy", "below", "joined"]


@dataclass
class Condition:
    """A condition on one field: some scalar of it passes; None: the field has no scalar."""

    path: tuple[str, ...]
    passes: Passes | None
    plain: bool = False


@dataclass
class Joined:
    """Conditions, or parts of a policy, of which all or any must hold."""

    every: bool
    parts: list[Policy]


@dataclass
class Element:
    """A policy that one object at this path must meet, or one element of an array there."""

    path: tuple[str, ...]
    policy: Policy

    @property
    def plain(self) -> bool:
        return is_plain(self.policy)


Policy = Condition | Joined | Element


@dataclass
class Part:
    """A part of a document: its own test, and a policy that its lists have in common."""

    test: Test
    policy: Policy | None = None
    scope: str = "payload"

    def close(self) -> Test:
        if self.policy is None:
            return self.test
        own, location, policy = self.test, Location(self.scope, ()), together(self.policy)
        return lambda world: own(world) and holds(policy, location.root(world))


def spellings(path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return each way to join keys of a path by dots: SNS and EventBridge see no difference."""
    if len(path) == 1:
        return [path]
    rest = spellings(path[1:])
    return [(path[0], *keys) for keys in rest] + [(f"{path[0]}.{k[0]}", *k[1:]) for k in rest]


def reached(node: Any, path: tuple[str, ...], plain: bool = False) -> list[Any]:
    """Return the values at a path; arrays are flattened, at most four levels deep."""
    found = []
    for keys in [path] if plain or len(path) > 4 else spellings(path):
        nodes = flat(node, 1)
        for key in keys:
            below = [n[key] for n in nodes if isinstance(n, dict) and key in n]
            nodes = [part for value in below for part in flat(value, 4)]
        found += nodes
    return found


def is_plain(policy: Policy) -> bool:
    """Whether a condition of a policy is evaluated for one spelling of its keys only."""
    if isinstance(policy, Joined):
        return any(map(is_plain, policy.parts))
    return policy.plain


def below(policy: Policy) -> str | None:
    """Return the first key of all paths of a policy; None if they have none in common."""
    if not isinstance(policy, Joined):
        return policy.path[0] if len(policy.path) > 1 else None
    keys = {below(part) for part in policy.parts}
    return keys.pop() if len(keys) == 1 else None


def moved(policy: Policy) -> Policy:
    """Return the policy with the first key of each path removed."""
    if isinstance(policy, Condition):
        return Condition(policy.path[1:], policy.passes, policy.plain)
    assert isinstance(policy, Joined)
    return Joined(policy.every, [moved(part) for part in policy.parts])


def needs(policy: Policy) -> bool:
    """Whether the policy requires some field to exist."""
    if isinstance(policy, Condition):
        return policy.passes is not None
    assert isinstance(policy, Joined)
    return (any if policy.every else all)(needs(part) for part in policy.parts)


def together(policy: Policy) -> Policy:
    """Return the policy with conditions grouped by key: one element must meet a whole group."""
    if isinstance(policy, Condition | Element):
        return policy
    groups: dict[str, list[Policy]] = {}
    parts: list[Policy] = []
    for part in policy.parts if policy.every else [policy]:
        key = below(part)
        if key is not None:
            groups.setdefault(key, []).append(moved(part))
        elif isinstance(part, Joined):
            parts.append(joined(False, [together(p) for p in part.parts]))
        else:
            parts.append(part)
    parts += [grouped(key, members) for key, members in groups.items()]
    return joined(True, parts)


def grouped(key: str, parts: list[Policy]) -> Policy:
    """Return conditions below a key as one policy.

    If all of them ask for missing fields, they apply to all elements below the key, not to one.
    """
    if len(parts) == 1 and isinstance(parts[0], Condition):
        return Condition((key, *parts[0].path), parts[0].passes, parts[0].plain)
    if any(map(needs, parts)):
        inner = together(joined(True, parts))
        if isinstance(inner, Element):
            return Element((key, *inner.path), inner.policy)
        return Element((key,), inner)
    return joined(True, [
        joined(part.every, [grouped(key, [p]) for p in part.parts])
        if isinstance(part, Joined)
        else grouped(key, [part])
        for part in parts
    ])  # fmt: skip


def holds(policy: Policy, node: Any) -> bool:
    if isinstance(policy, Joined):
        return (all if policy.every else any)(holds(part, node) for part in policy.parts)
    found = reached(node, policy.path, policy.plain)
    if isinstance(policy, Element):
        return any(holds(policy.policy, element) for element in found)
    if policy.passes is None:
        return not any(map(scalar, found))
    return any(policy.passes(value) for value in found)


def joined(every: bool, parts: list[Policy]) -> Policy:
    """Join parts by all or any, without nesting parts that are joined in the same way."""
    flattened: list[Policy] = []
    for part in parts:
        flattened += part.parts if isinstance(part, Joined) and part.every == every else [part]
    return flattened[0] if len(flattened) == 1 else Joined(every, flattened)
