"""A web page that shows queues, leases, dead letters, filters and the history of messages.

`pgq dashboard` serves it. Reading needs no more rights than the role of the connection has; acting
needs `--allow-writes` and a token.
"""

from __future__ import annotations

from pgq.dashboard.guard import Guard
from pgq.dashboard.server import Dashboard

__all__ = ["Dashboard", "Guard"]
