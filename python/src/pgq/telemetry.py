"""The metrics of a database for OpenTelemetry: needs opentelemetry-api (``pgq-client[trace]``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from pgq.metrics import Metric, MetricsReader

__all__ = ["instrument"]

Callback = Callable[[CallbackOptions], Iterable[Observation]]


def instrument(reader: MetricsReader, provider: MeterProvider | None = None) -> None:
    """Create observable instruments for the metrics of a reader.

    The names are those of ``pgq.metrics()`` without the suffix ``_total`` of counters, which
    exporters to Prometheus add. The names are read from the database, so `psycopg.Error` is raised
    if the database cannot be reached. Later, ``pgq_up`` is 0 while it cannot be reached.
    """
    meter = get_meter("pgq", meter_provider=provider)
    latest: dict[str, list[Metric]] = {}

    # Instruments are read in the order of their creation: this one queries the database.
    def up(_: CallbackOptions) -> Iterable[Observation]:
        latest.clear()
        for metric in reader.try_read():
            latest.setdefault(metric.name, []).append(metric)
        yield Observation(int(reader.up))

    def observe(name: str, _: CallbackOptions) -> Iterable[Observation]:
        for metric in latest.get(name, ()):
            yield Observation(metric.value, metric.labels)

    names = reader.names()
    meter.create_observable_gauge("pgq_up", [up], "", "1 if the database could be asked.")
    for name, kind, help in names:
        callback: Callback = partial(observe, name)
        if kind == "counter":
            meter.create_observable_counter(name.removesuffix("_total"), [callback], "", help)
        else:
            meter.create_observable_gauge(name, [callback], "", help)
