"""Fixtures of the tests with Spark."""

from __future__ import annotations

from harness.spark import fill, server, session, spark

__all__ = ["fill", "server", "session", "spark"]
