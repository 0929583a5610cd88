"""CPU of the whole server and of this process."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from bench.cluster import Bench

_TICK = os.sysconf("SC_CLK_TCK")


class Meter:
    """Sums the CPU between two calls: of all processes of the server, and of this process."""

    def __init__(self, bench: Bench) -> None:
        pid = (bench.server.data / "postmaster.pid").read_text().split()[0]
        self._postmaster = Path("/proc") / pid
        self._last = self._now()

    def lap(self) -> float:
        """Return the CPU of both since the last call, in seconds."""
        return sum(self.laps())

    def laps(self) -> tuple[float, float]:
        """Return the CPU of the server and of this process since the last call, in seconds."""
        before, self._last = self._last, self._now()
        return self._last[0] - before[0], self._last[1] - before[1]

    def _now(self) -> tuple[float, float]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        ended, running = self._ended(), self._running()
        while ended != self._ended():  # a process ended between the two readings
            ended, running = self._ended(), self._running()
        return ended + running, usage.ru_utime + usage.ru_stime

    def _ended(self) -> float:
        """Return the CPU of processes that have ended, which the postmaster accounts for."""
        fields = (self._postmaster / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[13]) + int(fields[14])) / _TICK

    def _running(self) -> float:
        children = (self._postmaster / "task" / self._postmaster.name / "children").read_text()
        return sum(map(_cpu, children.split()))


def _cpu(pid: str) -> float:
    try:
        fields = (Path("/proc") / pid / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:  # the process has just ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK
