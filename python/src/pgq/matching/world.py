"""Messages as tests read them, and the location in a message that a test reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pgq.errors import InvalidFilter

__all__ = ["Location", "Message", "Passes", "Test", "World", "always", "require"]

TIMES = ("published_at", "expires_at")


def require(condition: bool, reason: str) -> None:
    """Raise `InvalidFilter` unless the condition holds."""
    if not condition:
        raise InvalidFilter(reason)


@dataclass
class Message:
    """The parts of a message that a filter can test; `msg` has its own fields, such as topic."""

    headers: dict[str, Any] = field(default_factory=dict)
    payload: Any = None
    msg: dict[str, Any] = field(default_factory=dict)


@dataclass
class Location:
    """The location that a test reads: a path in a scope of the message, or in an element."""

    scope: str
    path: tuple[str, ...]

    @property
    def is_time(self) -> bool:
        return self.scope == "msg" and self.path[0] in TIMES

    @property
    def any_element(self) -> bool:
        return self.path != ()

    def root(self, world: World) -> Any:
        if self.scope == "headers":
            return world.message.headers
        return world.item if self.scope == "item" else world.message.payload

    def values(self, world: World) -> list[Any]:
        if self.scope == "msg":
            return [world.message.msg.get(self.path[0])]
        nodes = [self.root(world)]
        for key in self.path:
            below = [
                part for node in nodes for part in (node if isinstance(node, list) else [node])
            ]
            nodes = [part[key] for part in below if isinstance(part, dict) and key in part]
        return nodes


@dataclass
class World:
    """The input of a test: a message, the time in seconds, and inside ``$elemMatch`` an element."""

    message: Message
    now: Decimal
    item: Any = None


Test = Callable[[World], bool]
Passes = Callable[[Any], bool]


def always(world: World) -> bool:
    return True
