"""The interval of maintenance: once a minute in a process, for each database."""

from __future__ import annotations

import threading
import time

__all__ = ["EVERY_SECONDS", "is_due"]

EVERY_SECONDS = 60.0

_lock = threading.Lock()
_last: dict[str, float] = {}


def is_due(conninfo: str) -> bool:
    """Whether maintenance is due; the caller that gets True runs it."""
    with _lock:
        now = time.monotonic()
        if now - _last.setdefault(conninfo, now - EVERY_SECONDS) < EVERY_SECONDS:
            return False
        _last[conninfo] = now
        return True
