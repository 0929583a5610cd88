"""Trace context in the headers of messages, as W3C has it, if OpenTelemetry is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["available", "inject", "traced"]

try:
    from opentelemetry import context, propagate
except ImportError:  # it is not there: messages travel without
    context = propagate = None  # type: ignore[assignment]

available = propagate is not None


def inject(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the headers with the context of the current span, if there is one."""
    carrier = dict(headers or {})
    if propagate is not None and "traceparent" not in carrier:
        propagate.inject(carrier)
    return carrier


@contextmanager
def traced(headers: Mapping[str, Any]) -> Iterator[None]:
    """Make the context of a message current, so that spans begun meanwhile are its children."""
    if context is None or propagate is None:
        yield
        return
    token = context.attach(propagate.extract(headers))
    try:
        yield
    finally:
        context.detach(token)
