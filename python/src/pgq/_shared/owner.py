"""Names of processes that own a stream, and the check whether such a process has ended."""

from __future__ import annotations

import os
import socket
import uuid

__all__ = ["is_dead", "myself", "process"]


def myself() -> str:
    """Return a unique name of an owner in this process."""
    return f"{_pid_namespace()} {os.getpid()} {uuid.uuid4().hex[:8]}"


def process() -> str:
    """Return host and process id, for people."""
    return f"{socket.gethostname()} {os.getpid()}"


def is_dead(owner: str) -> bool:
    """Whether an owner was a process of this machine that has ended."""
    host, _, rest = owner.partition(" ")
    parts = rest.split(" ")
    if len(parts) != 3 or f"{host} {parts[0]}" != _pid_namespace() or not parts[1].isdigit():
        return False
    try:
        os.kill(int(parts[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _pid_namespace() -> str:
    """Return a name for the process id namespace of this host or container."""
    try:
        return f"{socket.gethostname()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"{socket.gethostname()} {uuid.uuid4().hex[:8]}"
