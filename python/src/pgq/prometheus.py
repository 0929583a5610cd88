"""The metrics of a database for Prometheus: needs prometheus_client (``pgq-client[metrics]``)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pgq.metrics import MetricsReader

__all__ = ["PgqCollector"]


class PgqCollector(Collector):
    """Queries the database when Prometheus scrapes; pass it to ``REGISTRY.register``.

    While the database does not answer, only ``pgq_up 0`` and ``pgq_scrape_seconds`` are returned,
    so that no stale value is taken for a new one.
    """

    def __init__(self, reader: MetricsReader) -> None:
        self._reader = reader

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering needs no database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        families: dict[str, Metric] = {}
        for metric in self._reader.try_read():
            family = families.get(metric.name)
            if family is None:
                kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                family = families[metric.name] = kind(metric.name, metric.help)
            family.add_sample(metric.name, metric.labels, metric.value)
        yield GaugeMetricFamily(
            "pgq_up", "1 if the database could be asked.", float(self._reader.up)
        )
        yield GaugeMetricFamily(
            "pgq_scrape_seconds", "How long the database took to answer.", self._reader.seconds
        )
        yield from families.values()
