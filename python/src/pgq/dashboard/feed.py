"""One poller for all browsers: it queries the database, and streams the samples to them."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import astuple, dataclass
from statistics import median
from typing import Any

import psycopg

from pgq.dashboard.data import Database, Row
from pgq.dashboard.failures import as_json

__all__ = ["Feed"]

logger = logging.getLogger("pgq.dashboard")

#: The maximum number of points of a sparkline: an hour in minutes, and the latest samples.
POINTS = 210
MOST_WATCHERS = 32
# The poller may use this fraction of one connection's time.
_SHARE = 0.1
# How long the poller runs after the last browser has left, which may only reload the page.
_LINGER = 60.0
# Seconds between two heartbeats of a stream without news.
_PULSE = 10
# An estimate is shown as the median of this many: the ready messages of a small part of a large
# table are estimated from few pages.
_GUESSES = 9
_KEPT = ("ready", "oldest", "published", "acked", "failed", "dead")


@dataclass(frozen=True, slots=True)
class Point:
    """The state of a queue at one time: a point of its sparklines."""

    at: float
    ready: int | None
    oldest: float | None
    published: float | None
    acked: float | None
    failed: float | None
    dead: int | None


class Feed:
    """The newest sample and the past of every queue, as streams of events.

    The poller runs while a browser is connected, in the event loop of its request. An application
    that mounts the page need not start or stop anything.
    """

    def __init__(self, database: Database, interval: float) -> None:
        self._database = database
        self._interval = interval
        self._changed = asyncio.Event()
        self._number = 0
        self._seeds = 0
        self._watchers = 0
        self._stopped = False
        self._past: dict[str, deque[Point]] = {}
        self._guesses: dict[str, deque[int]] = {}
        self._sample: Row = {"queues": [], "holders": [], "findings": [], "at": None}
        self._news: str | None = None
        self._poller: asyncio.Task[None] | None = None
        self._rest: asyncio.TimerHandle | None = None

    @property
    def watchers(self) -> int:
        return self._watchers

    @property
    def full(self) -> bool:
        return self._watchers >= MOST_WATCHERS

    async def watch(self) -> AsyncIterator[str]:
        """Yield events for a browser until it disconnects: the past, then news."""
        self._enter()
        number = seeds = 0
        try:
            # A browser that loses the server reconnects after this many milliseconds.
            yield "retry: 1000\n\n"
            while not self._stopped:
                if self._news is None or self._number == number:
                    if not await self._wait():
                        yield ": alive\n\n"
                    continue
                number = self._number
                if self._seeds != seeds:
                    seeds = self._seeds
                    yield f"event: past\ndata: {self.past()}\n\n"
                yield f"data: {self._news}\n\n"
        finally:
            self._leave()

    async def _wait(self) -> bool:
        """Wait for news; False if there are none until the next heartbeat."""
        try:
            async with asyncio.timeout(_PULSE):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def past(self) -> str:
        """Return the past of all queues, for a new browser."""
        return json.dumps(
            {name: [astuple(point) for point in line] for name, line in self._past.items()}
        )

    def _enter(self) -> None:
        self._watchers += 1
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._run())

    def _leave(self) -> None:
        self._watchers -= 1
        if not self._watchers and not self._stopped:
            self._rest = asyncio.get_running_loop().call_later(_LINGER, self._end)

    def _end(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
        self._poller = self._rest = self._news = None

    def stop(self) -> None:
        """End the poller and all streams; call it in the event loop."""
        self._stopped = True
        if self._rest is not None:
            self._rest.cancel()
        self._end()
        self._wake()

    async def _run(self) -> None:
        seeded = False
        try:
            while True:
                started = time.monotonic()
                try:
                    if not seeded:
                        self._seed(await self._database.traffic())
                        seeded = True
                    self._learn(await self._database.sample())
                except psycopg.Error as error:
                    logger.warning("the database does not answer: %s", str(error).strip())
                    self._publish(as_json(error))
                took = time.monotonic() - started
                await asyncio.sleep(max(self._interval, took / _SHARE - took))
        finally:
            await self._database.close_idle()

    def _seed(self, minutes: list[Row]) -> None:
        """Fill the past with the minutes of the last hour that the database has recorded."""
        self._past = {}
        for row in minutes:
            line = self._past.setdefault(row["queue"], deque(maxlen=POINTS))
            line.append(Point(oldest=None, **{n: v for n, v in row.items() if n != "queue"}))
        self._seeds += 1

    def _learn(self, sample: Row) -> None:
        at = float(sample["at"])
        past = {}
        self._calm(sample["queues"])
        for row in sample["queues"]:
            line = self._past.get(row["queue"], deque(maxlen=POINTS))
            line.append(Point(at, **{name: row[name] for name in _KEPT}))
            past[row["queue"]] = line
        self._past = past  # without queues that no longer exist
        self._sample = sample
        self._publish(None)

    def _calm(self, queues: list[Row]) -> None:
        """Replace estimated counts by the median of the last ones; exact counts reset that."""
        guesses = {}
        for row in queues:
            if not row["exact"]:
                line = self._guesses.get(row["queue"], deque(maxlen=_GUESSES))
                line.append(row["ready"])
                guesses[row["queue"]] = line
                row["ready"] = round(median(line))
        self._guesses = guesses

    def _publish(self, error: dict[str, Any] | None) -> None:
        """Send news to all streams; after an error the last sample is sent again with it."""
        self._news = json.dumps(self._sample | {"outage": error, "interval": self._interval})
        self._number += 1
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
