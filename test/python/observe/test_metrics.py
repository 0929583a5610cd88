"""The metrics outside of the database: the command line, Prometheus, OpenTelemetry."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import psycopg
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint, Sum
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import pgq
from harness.command import Command
from harness.server import embedded_server
from pgq import embedded
from pgq.metrics import MetricsReader
from pgq.prometheus import PgqCollector
from pgq.telemetry import instrument

# However slow this machine is.
TIMEOUT = timedelta(minutes=1)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def sample(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def parsed(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        text: str = answer.read().decode()
    return text


@contextmanager
def running(dsn: str, *arguments: str, **variables: str) -> Iterator[str]:
    """Run ``pgq metrics`` until the block ends; yield its first output."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "pgq", "metrics", "--timeout", "1m", *arguments],
        env=os.environ | {"PGQ_DSN": dsn} | variables,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        yield process.stderr.readline().strip()
        process.send_signal(signal.SIGTERM)
        errors = process.stderr.read()
        assert process.wait(60) == 0, errors
        assert "Traceback" not in errors
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", max_attempts=1)
    client.subscribe("audit", "orders.#")
    client.publish_batch("orders", [1, 2, 3])
    client.claim("orders", n=1).nack(error="no")
    return client


# The command line


def test_the_metrics_are_shown_as_a_table_and_as_json(
    orders: pgq.PooledClient, pgq_run: Command
) -> None:
    shown = pgq_run("metrics", "pgq_ready_messages", "pgq_dead_letters*")
    assert shown.code == 0
    assert re.search(r'^pgq_ready_messages +\{"queue": "orders"\} +2$', shown.out, re.MULTILINE)
    rows = pgq_run("metrics", "--json").rows
    assert {"name": "pgq_ready_messages", "kind": "gauge", "labels": {"queue": "orders"}} in [
        {key: row[key] for key in ("name", "kind", "labels")} for row in rows
    ]
    assert all(row["help"] for row in rows)
    assert orders.metrics()[0].keys() == rows[0].keys()


def test_bad_arguments_are_reported(dsn: str, pgq_run: Command) -> None:
    assert pgq_run("metrics", "nothing").code == 2
    assert pgq_run("metrics", "--serve", "pgq_up").code == 2
    assert "cannot listen" in pgq_run("metrics", "--serve", "--port", "99999999").err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = pgq_run("metrics", "--serve", "--port", str(taken.getsockname()[1]))
    assert result.code == 1
    assert "in use" in result.err


def test_without_a_database_the_metrics_are_an_error(pgq_run: Command) -> None:
    assert pgq_run("metrics", "--dsn", "host=127.0.0.1 port=1").code == 4


def test_what_is_not_installed_is_named(pgq_run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert "pgq-client[metrics]" in pgq_run("metrics", "--serve").err
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", None)
    assert "pgq-client[otlp]" in pgq_run("metrics", "--otlp").err


# Prometheus


def test_each_scrape_queries_the_database(dsn: str, orders: pgq.PooledClient) -> None:
    with running(dsn, "--serve", "--port", "0") as address:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", address)
        before = parsed(get(address))
        orders.publish("orders", 4)
        after = parsed(get(address))
    assert sample(before, "pgq_up") == 1
    assert sample(before, "pgq_ready_messages", queue="orders") == 2
    assert sample(after, "pgq_ready_messages", queue="orders") == 3
    assert sample(after, "pgq_dead_letters_total", queue="orders", reason="processing_error") == 1
    assert sample(after, "pgq_published_messages_total") == 4


def test_types_and_meanings_are_exported(dsn: str, orders: pgq.PooledClient) -> None:
    reader = MetricsReader(dsn, timeout=TIMEOUT)
    registry = CollectorRegistry()
    registry.register(PgqCollector(reader))
    families = {
        family.name: family
        for family in text_string_to_metric_families(generate_latest(registry).decode())
    }
    names = reader.names()
    reader.close()
    for name, kind, help in names:
        if name == "pgq_snapshot_holder_seconds":  # there is none
            continue
        family = families[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (kind, help)
    assert families.keys() - {name.removesuffix("_total") for name, _, _ in names} == {
        "pgq_up",
        "pgq_scrape_seconds",
    }


def test_a_slow_database_counts_as_down_and_blocks_no_scrape(
    dsn: str, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    reader = MetricsReader(dsn, timeout=timedelta(milliseconds=200))
    registry = CollectorRegistry()
    registry.register(PgqCollector(reader))
    with db.transaction():
        db.execute("lock table pgq.queue in access exclusive mode")
        samples = parsed(generate_latest(registry).decode())
        assert sample(samples, "pgq_up") == 0
        assert {name for name, _ in samples} == {"pgq_up", "pgq_scrape_seconds"}
        with pytest.raises(psycopg.errors.QueryCanceled):
            reader.read()
    reader._timeout = TIMEOUT
    assert sample(parsed(generate_latest(registry).decode()), "pgq_up") == 1
    reader.close()


@pytest.fixture(scope="module")
def restarting() -> Iterator[embedded.Server]:
    with embedded_server() as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("select pgq.create_queue('orders')")
            conn.execute("checkpoint")  # servers of tests do not wait for their disk
        yield server


def test_a_server_that_restarts_is_down_and_up_again(restarting: embedded.Server) -> None:
    dsn = restarting.dsn()
    with running(dsn, "--serve", "--port", "0") as address:
        assert sample(parsed(get(address)), "pgq_up") == 1
        restarting.stop("immediate")
        down = parsed(get(address))
        restarting.start()
        up = parsed(get(address))
        # A restart between two scrapes has no effect.
        restarting.stop("fast")
        restarting.start()
        again = parsed(get(address))
    assert sample(down, "pgq_up") == 0
    assert sample(down, "pgq_ready_messages", queue="orders") is None
    assert sample(up, "pgq_up") == sample(again, "pgq_up") == 1
    assert sample(up, "pgq_ready_messages", queue="orders") == 0


def test_an_exporter_may_start_before_the_database(restarting: embedded.Server) -> None:
    dsn = restarting.dsn()
    restarting.stop("fast")
    with running(dsn, "--serve", "--port", "0") as address:
        assert sample(parsed(get(address)), "pgq_up") == 0
        restarting.start()
        assert sample(parsed(get(address)), "pgq_up") == 1


def test_a_role_that_watches_needs_no_other_right(
    dsn: str, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    name = f"watcher_{os.getpid()}"
    db.execute(f"create role {name} login password 'watch' in role pg_monitor".encode())
    try:
        address = psycopg.conninfo.make_conninfo(dsn, user=name, password="watch")
        reader = MetricsReader(address)
        found = {metric.labels.get("queue") for metric in reader.read()}
        reader.close()
    finally:
        db.execute(f"drop role {name}".encode())
    assert "orders" in found


# Who holds the oldest snapshot


def test_the_holder_of_the_oldest_snapshot_is_reported(
    dsn: str, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    with psycopg.connect(dsn, application_name="report") as holder:
        holder.execute("set transaction isolation level repeatable read")
        row = holder.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        for _ in range(3):
            orders.publish("orders", 1)
        # The clock of pgq advances by two minutes.
        db.execute(
            "create or replace function pgq.now() returns timestamptz language sql volatile"
            " parallel safe return clock_timestamp() + interval '2 min'"
        )
        reader = MetricsReader(dsn, timeout=TIMEOUT)
        (found,) = [
            metric for metric in reader.read() if metric.name == "pgq_snapshot_holder_seconds"
        ]
        told = {(metric.name, metric.labels.get("kind")): metric.value for metric in reader.read()}
        reader.close()
    assert told["pgq_oldest_snapshot_transactions", "session"] >= 3
    assert told["pgq_oldest_snapshot_seconds", "session"] >= 120
    assert found.value >= 120
    assert found.labels == {
        "kind": "session",
        "name": str(row[0]),
        "application": "report",
        "role": db.info.user,
    }
    assert told["pgq_oldest_snapshot_transactions", "prepared"] == 0


def test_prepared_transactions_hold_snapshots_too() -> None:
    with embedded_server(max_prepared_transactions=2) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("begin")
            conn.execute("create table t ()")
            conn.execute("prepare transaction 'forgotten'")
            conn.execute("select pg_current_xact_id()")
        reader = MetricsReader(server.dsn(), timeout=TIMEOUT)
        told = {
            metric.name: metric.value
            for metric in reader.read()
            if metric.labels == {"kind": "prepared"}
        }
        reader.close()
    assert told.keys() == {"pgq_oldest_snapshot_seconds", "pgq_oldest_snapshot_transactions"}
    assert all(value > 0 for value in told.values())


# OpenTelemetry


def observed(source: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, object], float]]]:
    data = source.get_metrics_data()
    found: dict[str, list[tuple[dict[str, object], float]]] = {}
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if metric.name.removeprefix("pgq_") in ("retries", "dead_letters"):
                    assert isinstance(metric.data, Sum)
                    assert metric.data.is_monotonic
                for point in metric.data.data_points:
                    assert isinstance(point, NumberDataPoint)
                    found.setdefault(metric.name, []).append(
                        (dict(point.attributes or {}), point.value)
                    )
    return found


def test_opentelemetry_observes_the_same(dsn: str, orders: pgq.PooledClient) -> None:
    source = InMemoryMetricReader()
    provider = MeterProvider([source])
    reader = MetricsReader(dsn, timeout=TIMEOUT)
    instrument(reader, provider)
    first = observed(source)
    orders.publish("orders", 4)
    second = observed(source)
    assert first["pgq_up"] == [({}, 1)]
    assert ({"queue": "orders"}, 2) in first["pgq_ready_messages"]
    assert ({"queue": "orders"}, 3) in second["pgq_ready_messages"]
    labels = {"queue": "orders", "reason": "processing_error"}
    assert (labels, 1) in second["pgq_dead_letters"]
    assert {name.removesuffix("_total") for name, _, _ in reader.names()} - second.keys() == {
        "pgq_snapshot_holder_seconds"
    }
    reader.close()
    provider.shutdown()


def test_opentelemetry_reports_that_the_database_is_down(restarting: embedded.Server) -> None:
    source = InMemoryMetricReader()
    provider = MeterProvider([source])
    reader = MetricsReader(restarting.dsn(), timeout=TIMEOUT)
    instrument(reader, provider)
    restarting.stop("fast")
    down = observed(source)
    restarting.start()
    up = observed(source)
    reader.close()
    provider.shutdown()
    assert down == {"pgq_up": [({}, 0)]}
    assert up["pgq_up"] == [({}, 1)]
    assert ({"queue": "orders"}, 0) in up["pgq_ready_messages"]


class Receiver(BaseHTTPRequestHandler):
    """An OTLP endpoint that keeps the names of received metrics."""

    names: set[str]
    got: threading.Event

    def do_POST(self) -> None:
        import gzip

        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        request = ExportMetricsServiceRequest.FromString(body)
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                self.names.update(metric.name for metric in scope.metrics)
        self.got.set()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_metrics_are_sent_by_otlp(dsn: str, orders: pgq.PooledClient) -> None:
    Receiver.names, Receiver.got = set(), threading.Event()
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with running(
                dsn,
                "--otlp",
                OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{server.server_port}",
                OTEL_METRIC_EXPORT_INTERVAL="200",
            ) as output:
                assert output.startswith("sending")
                assert Receiver.got.wait(60)
        finally:
            server.shutdown()
            thread.join()
    assert {"pgq_up", "pgq_ready_messages", "pgq_dead_letters"} <= Receiver.names


def test_a_reader_wants_some_time() -> None:
    with pytest.raises(ValueError, match="timeout"):
        MetricsReader(timeout=timedelta(0))


def test_readers_share_a_connection_in_turns(dsn: str, orders: pgq.PooledClient) -> None:
    reader = MetricsReader(dsn, timeout=TIMEOUT)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(len(reader.read()))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader.close()
    assert len(counts) == 5
    assert min(counts) > 50
