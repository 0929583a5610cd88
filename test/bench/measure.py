"""Measure the cost of some work, in rounds in which contestants run in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bench.cluster import Session

T = TypeVar("T")


@dataclass(frozen=True)
class Usage:
    """The cost of some work: backend CPU in microseconds, bytes of WAL, elapsed seconds."""

    cpu: float
    kernel: float  # a part of cpu
    wal: float
    seconds: float

    def per(self, count: int) -> Usage:
        return Usage(self.cpu / count, self.kernel / count, self.wal / count, self.seconds / count)


def measure(session: Session, work: Callable[[], object]) -> Usage:
    """Do the work, all of it in the session's backend, and return its cost."""
    wal, kernel, cpu = session.wal(), session.kernel(), session.cpu()
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    cpu, kernel = session.cpu() - cpu, session.kernel() - kernel
    return Usage(cpu, kernel, session.wal() - wal, seconds)


def alternate(rounds: int, contestants: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Run the contestants in turns, so that noise affects all of them; return their results."""
    results: dict[str, list[T]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            results[name].append(contestant())
    return results


def median(usages: Sequence[Usage]) -> Usage:
    """Return the median of each cost, and the mean for the kernel: clock ticks are too coarse."""
    return Usage(
        statistics.median(usage.cpu for usage in usages),
        statistics.fmean(usage.kernel for usage in usages),
        statistics.median(usage.wal for usage in usages),
        statistics.median(usage.seconds for usage in usages),
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile of the values."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, len(ranked) * percent // 100)]
