"""Names of processes that own something, and whether such a process has ended."""

from __future__ import annotations

import os
import socket
import uuid

__all__ = ["is_dead", "myself", "process"]


def myself() -> str:
    """Return a unique name of an owner in this process."""
    return f"{_place()} {os.getpid()} {uuid.uuid4().hex[:8]}"


def process() -> str:
    """Return host and process id, for people."""
    return f"{socket.gethostname()} {os.getpid()}"


def is_dead(owner: str) -> bool:
    """Whether an owner was a process of this machine that has ended."""
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
    """Return a name for the process id namespace."""
    try:
        return f"{socket.gethostname()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"{socket.gethostname()} {uuid.uuid4().hex[:8]}"
