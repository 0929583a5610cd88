"""Who has a name that one process has at a time, and whether that process has ended."""

from __future__ import annotations

import os
import socket
import uuid

__all__ = ["is_dead", "myself"]


def myself() -> str:
    """Return a name for something in this process that nothing else has."""
    return f"{_place()} {os.getpid()} {uuid.uuid4().hex[:8]}"


def is_dead(owner: str) -> bool:
    """Whether the owner of a name was a process here that has ended."""
    place, _, rest = owner.partition(" ")
    parts = rest.split(" ")
    if len(parts) != 3 or f"{place} {parts[0]}" != _place() or not parts[1].isdigit():
        return False
    try:
        os.kill(int(parts[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _place() -> str:
    """Return what processes have in common that can see each other."""
    try:
        return f"{socket.gethostname()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"{socket.gethostname()} {uuid.uuid4().hex[:8]}"
