"""``pgq metrics``."""

from __future__ import annotations

import logging
import threading
from dataclasses import asdict
from fnmatch import fnmatchcase

from pgq._shared.threads import on_signals
from pgq.cli._command import USAGE, Commands, Failure, Options, add_log, duration, set_log
from pgq.cli._output import Output, as_json, say
from pgq.metrics import MetricsReader

__all__ = ["add"]

_PORT = 9188


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "metrics",
        metrics,
        "print the metrics, or export them to Prometheus or OpenTelemetry",
        """
        pgq metrics
        pgq metrics 'pgq_dead*' 'pgq_oldest*' --json
        pgq metrics --serve --port 9188
        OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 pgq metrics --otlp
        """,
        more="A member of pg_monitor sees all queues; other roles see the queues that they may "
        "consume.\n--serve answers /metrics and queries the database each time. While the database "
        "cannot be\nreached, it answers pgq_up 0. It has no password: for access from other "
        "machines use a proxy\nthat has one. --otlp is configured by the OTEL_* variables.\n\n",
    )
    parser.add_argument("name", nargs="*", help="only these metrics; * and ? are wildcards")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--serve", action="store_true", help="serve Prometheus until interrupted")
    how.add_argument("--otlp", action="store_true", help="send by OTLP until interrupted")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=_PORT, help=f"port to listen on ({_PORT})")
    parser.add_argument(
        "--timeout",
        type=duration,
        metavar="DURATION",
        default=duration("5s"),
        help="timeout of a query (5s)",
    )
    add_log(parser)


def metrics(options: Options, out: Output) -> None:
    """Show the metrics, or export them."""
    set_log(options, logging.INFO)
    reader = MetricsReader(options.dsn, timeout=options.timeout)
    if (options.serve or options.otlp) and options.name:
        raise Failure("all metrics are exported", "Leave out the names.", code=USAGE)
    try:
        if options.serve:
            _serve(options, reader)
        elif options.otlp:
            _send(reader)
        else:
            _show(options, reader, out)
    finally:
        reader.close()


def _show(options: Options, reader: MetricsReader, out: Output) -> None:
    rows = [
        asdict(metric)
        for metric in reader.read()
        if not options.name or any(fnmatchcase(metric.name, name) for name in options.name)
    ]
    if not rows:
        raise Failure("no metric has such a name", "See: pgq metrics", code=USAGE)
    if not out.as_json:
        rows = [row | {"labels": as_json(row["labels"]), "value": _short(row["value"])}
                for row in rows]  # fmt: skip
    out.rows(rows, ("name", "labels", "value"))


def _short(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.3f}"


def _serve(options: Options, reader: MetricsReader) -> None:
    try:
        from prometheus_client import CollectorRegistry, start_http_server

        from pgq.prometheus import PgqCollector
    except ImportError:
        raise Failure("prometheus_client is missing", "pip install 'pgq-client[metrics]'") from None
    registry = CollectorRegistry()
    registry.register(PgqCollector(reader))
    try:
        server, thread = start_http_server(options.port, options.host, registry)
    except (OSError, OverflowError) as error:
        raise Failure(f"cannot listen on {options.host}:{options.port}: {error}") from None
    say(f"http://{options.host}:{server.server_port}/metrics")
    try:
        _until_stopped()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _send(reader: MetricsReader) -> None:
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        from pgq.telemetry import instrument
    except ImportError:
        raise Failure(
            "OpenTelemetry's SDK or its OTLP exporter is missing",
            "pip install 'pgq-client[otlp]'",
        ) from None
    provider = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
    try:
        instrument(reader, provider)
        say("sending; the OTEL_* variables say where to and how often")
        _until_stopped()
    finally:
        provider.shutdown()


def _until_stopped() -> None:
    stopped = threading.Event()
    with on_signals(stopped.set, True):
        # Waiting in small steps lets the main thread notice signals.
        while not stopped.wait(0.5):
            pass
