"""What the tests with Spark share."""

from __future__ import annotations

from harness.spark import fill, server, session, spark

__all__ = ["fill", "server", "session", "spark"]
