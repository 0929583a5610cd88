"""Traces continue from the publisher of a message to its handler."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import pgq
from pgq.logging import JsonFormatter

_exporter = InMemorySpanExporter()


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer provider for this test: that of the process can be set only once."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(_exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    _exporter.clear()


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", max_attempts=1)
    return client


def spans() -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for span in _exporter.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


def ship(message: pgq.Message) -> None:
    with trace.get_tracer("shop").start_as_current_span("ship"):
        pass


def consume(client: pgq.PooledClient, handler: Callable[[pgq.Message], None] = ship) -> None:
    pgq.Consumer(client, "orders", handler, drain=True).run(signals=False)


def traced(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


@pytest.mark.parametrize("how", ["publish", "publish_batch", "publish_many", "publisher"])
def test_a_handler_runs_within_a_child_of_the_span_that_published(
    orders: pgq.PooledClient, how: str
) -> None:
    with trace.get_tracer("shop").start_as_current_span("buy"):
        match how:
            case "publish":
                orders.publish("orders", 1, correlation_id="c")
            case "publish_batch":
                orders.publish_batch("orders", [1], correlation_id="c")
            case "publish_many":
                orders.publish_many([pgq.Draft(topic="orders", payload=1, correlation_id="c")])
            case "publisher":
                publisher = pgq.Publisher(orders)
                publisher.publish("orders", 1, correlation_id="c")
    if how == "publisher":
        # The flush happens in another trace.
        with trace.get_tracer("shop").start_as_current_span("flush"):
            publisher.close()
    consume(orders)
    found = spans()
    (buy,), (process,), (within,) = found["buy"], found["process orders"], found["ship"]
    assert process.parent is not None
    assert (process.parent.trace_id, process.parent.span_id) == traced(buy)
    assert process.parent.is_remote
    assert process.kind is trace.SpanKind.CONSUMER
    assert within.parent is not None
    assert (within.parent.trace_id, within.parent.span_id) == traced(process)
    attributes = dict(process.attributes or {})
    assert attributes.pop("messaging.message.id")
    assert attributes == {
        "messaging.system": "pgq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.message.conversation_id": "c",
        "pgq.topic": "orders",
        "pgq.attempt": 1,
    }


@pytest.mark.asyncio
async def test_asyncio_traces_too(async_client: pgq.AsyncPooledClient) -> None:
    await async_client.create_queue("orders")
    with trace.get_tracer("shop").start_as_current_span("buy"):
        await async_client.publish("orders", 1)

    async def handle(message: pgq.Message) -> None:
        with trace.get_tracer("shop").start_as_current_span("ship"):
            pass

    consumer = pgq.AsyncConsumer(async_client, "orders", handle, drain=True, concurrency=2)
    await consumer.run(signals=False)
    found = spans()
    assert found["process orders"][0].parent is not None
    assert {traced(span)[0] for name in found for span in found[name]} == {
        traced(found["buy"][0])[0]
    }


def test_a_message_without_a_trace_begins_one(orders: pgq.PooledClient) -> None:
    orders.publish("orders", 1)
    consume(orders)
    found = spans()
    assert found["process orders"][0].parent is None
    assert found["ship"][0].parent is not None


def test_a_span_of_a_failed_handler_has_the_status_error(
    orders: pgq.PooledClient,
) -> None:
    orders.publish("orders", 1)

    def handle(message: pgq.Message) -> None:
        raise ValueError("spoilt")

    consume(orders, handle)
    (span,) = spans()["process orders"]
    assert span.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


def test_a_line_of_json_names_the_span(orders: pgq.PooledClient) -> None:
    orders.publish("orders", 1)
    lines: list[str] = []

    def handle(message: pgq.Message) -> None:
        record = logging.getLogger("shop").makeRecord("shop", 20, "f", 1, "packed", (), None)
        lines.append(JsonFormatter().format(record))

    consume(orders, handle)
    told = json.loads(lines[0])
    (span,) = spans()["process orders"]
    assert told["trace_id"] == trace.format_trace_id(traced(span)[0])
    assert told["span_id"] == trace.format_span_id(traced(span)[1])


def test_without_opentelemetry_everything_works(orders: pgq.PooledClient, dsn: str) -> None:
    orders.publish("orders", 1, headers={"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"})
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import logging, pgq, pgq.logging\n"
        "handler = logging.StreamHandler(sys.stdout)\n"
        "handler.setFormatter(pgq.logging.JsonFormatter())\n"
        "logging.basicConfig(level='DEBUG', handlers=[handler])\n"
        "with pgq.connect(sys.argv[1]) as client:\n"
        "    pgq.Publisher(client).close()\n"
        "    pgq.Consumer(client, 'orders', lambda message: None, drain=True).run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, dsn],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"event": "message_handled"' in done.stdout
