"""A web page for operators: queues, messages, consumers, dead letters, schedules, filters.

`pgq dashboard` serves the page. `app()` is the same page as an ASGI application, to be mounted in
another one behind its login. The page has the rights of its database role, and is read-only unless
writes are enabled. Needs ``pgq-client[dashboard]``.
"""

from __future__ import annotations

from pgq.dashboard.app import App, app
from pgq.dashboard.guard import Guard
from pgq.dashboard.server import Dashboard

__all__ = ["App", "Dashboard", "Guard", "app"]
