"""A private PostgreSQL server with pgq: see `pgq.testing.embedded`."""

from __future__ import annotations

from pgq.testing.embedded import EmbeddedError, Server, Setting, StopMode, find_binaries, start

__all__ = ["EmbeddedError", "Server", "Setting", "StopMode", "find_binaries", "start"]
