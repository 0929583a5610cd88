"""The metrics of a database for OpenTelemetry: needs opentelemetry-api (``pgq-client[trace]``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from pgq.metrics import Metric, MetricsReader

__all__ = ["instrument"]

Callback = Callable[[CallbackOptions], Iterable[Observation]]


def instrument(reader: MetricsReader, provider: MeterProvider | None = None) -> None:
    """Observe what the reader reads, by the provider that is given or else the one that is set.

    The names are those of ``pgq.metrics()``, without the ending ``_total`` of counters, which those
    who export to Prometheus add themselves. Raises `psycopg.Error` if the database cannot be
    reached, because it knows what there is to observe; later ``pgq_up`` says so.
    """
    meter = get_meter("pgq", meter_provider=provider)
    latest: dict[str, list[Metric]] = {}

    # Instruments are asked in the order in which they were made: this one asks the database.
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
