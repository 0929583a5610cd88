"""Trace context in the headers of messages (W3C), if OpenTelemetry is installed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pgq.message import Message

__all__ = ["current", "inject", "is_set_up", "processing"]

try:
    from opentelemetry import propagate, trace
except ImportError:  # not installed: messages have no trace context
    propagate = trace = None  # type: ignore[assignment]


def is_set_up() -> bool:
    """Whether a tracer provider is configured; if not, no spans are made."""
    return trace is not None and not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider
    )


def inject(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the headers with the context of the current span, if there is one."""
    carrier = dict(headers or {})
    if propagate is not None and "traceparent" not in carrier:
        propagate.inject(carrier)
    return carrier


def processing(queue: str, message: Message) -> AbstractContextManager[Any]:
    """Return the span for handling a message, a child of the span that published it."""
    if trace is None or propagate is None:
        return nullcontext()
    attributes: dict[str, str | int] = {
        "messaging.system": "pgq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": queue,
        "messaging.message.id": str(message.id),
        "pgq.topic": message.topic,
        "pgq.attempt": message.attempt,
    }
    if message.correlation_id is not None:
        attributes["messaging.message.conversation_id"] = message.correlation_id
    return trace.get_tracer("pgq").start_as_current_span(
        f"process {queue}",
        propagate.extract(message.headers),
        trace.SpanKind.CONSUMER,
        attributes,
    )


def current() -> dict[str, str]:
    """Return the ids of the current span, if there is one."""
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(context.trace_id),
        "span_id": trace.format_span_id(context.span_id),
    }
