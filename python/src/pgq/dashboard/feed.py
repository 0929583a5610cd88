"""One poller for all browsers: it asks the database, they wait for what it learns."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections import deque
from contextlib import suppress
from dataclasses import astuple
from statistics import median
from threading import Condition, Thread
from typing import Any

import psycopg

from pgq.dashboard.attention import Point, findings
from pgq.dashboard.data import Database, Session
from pgq.dashboard.said import said

__all__ = ["Feed"]

logger = logging.getLogger("pgq.dashboard")

#: How many points a sparkline has.
POINTS = 150
# The poller may use this part of one connection's time, and asks less often when nobody looks.
_SHARE = 0.1
_IDLE = 5
# An estimate is the median of so many: what is ready in a small part of a large table is guessed
# from few pages.
_GUESSES = 9
_KEPT = ("ready", "oldest", "published", "acked", "failed", "dead")


class Feed:
    """The newest sample, and the past of every queue; watched by any number of threads."""

    def __init__(self, database: Database, interval: float) -> None:
        self.instance = secrets.token_hex(8)
        self._database = database
        self._interval = interval
        self._changed = Condition()
        self._number = 0
        self._watchers = 0
        self._stopped = False
        self._past: dict[str, deque[Point]] = {}
        self._guesses: dict[str, deque[int]] = {}
        self._sample: dict[str, Any] = {"queues": [], "holders": [], "findings": [], "at": None}
        self._news = ""
        self._thread = Thread(target=self._run, name="pgq-dashboard-poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the poller and everything that waits for it."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join(5)

    @property
    def stopped(self) -> bool:
        return self._stopped

    @property
    def watchers(self) -> int:
        return self._watchers

    def enter(self) -> None:
        """Somebody looks: from now on the sample is kept fresh."""
        with self._changed:
            self._watchers += 1
            self._changed.notify_all()

    def leave(self) -> None:
        with self._changed:
            self._watchers -= 1

    def past(self) -> str:
        """Return the past of all queues, for somebody who has just come."""
        with self._changed:
            past = {name: [astuple(point) for point in line] for name, line in self._past.items()}
        return json.dumps({"instance": self.instance, "past": past})

    def wait(self, number: int, timeout: float) -> tuple[int, str | None]:
        """Wait for something newer than a number; return its number and the text of it."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number or self._stopped, timeout)
            if self._number <= number or self._stopped:
                return number, None
            return self._number, self._news

    def _run(self) -> None:
        session: Session | None = None
        while not self._stopped:
            started = time.monotonic()
            try:
                session = session or self._database.session()
                self._learn(session.sample())
            except psycopg.Error as error:
                logger.warning("the database does not answer: %s", str(error).strip())
                self._publish(said(error))
                if session is not None:
                    with suppress(psycopg.Error):
                        session.close()
                session = None
            self._sleep(time.monotonic() - started)
        if session is not None:
            session.close()

    def _sleep(self, took: float) -> None:
        """Sleep until the next sample is due, which is sooner if somebody looks."""
        started = time.monotonic()
        with self._changed:
            while not self._stopped:
                pause = self._interval * (1 if self._watchers else _IDLE)
                rest = max(pause, took / _SHARE) - (time.monotonic() - started)
                if rest <= 0:
                    return
                self._changed.wait(rest)
                # Woken by our own news or by somebody who has come: see what is left.

    def _learn(self, sample: dict[str, Any]) -> None:
        at = float(sample["at"])
        with self._changed:
            past = {}
            self._calm(sample["queues"])
            for row in sample["queues"]:
                line = self._past.get(row["queue"], deque(maxlen=POINTS))
                line.append(Point(at, **{name: row[name] for name in _KEPT}))
                past[row["queue"]] = line
            self._past = past  # without those of queues that are gone
            sample["findings"] = findings(sample["queues"], sample["holders"], past, at)
            self._sample = sample
            self._publish(None)

    def _calm(self, queues: list[dict[str, Any]]) -> None:
        """Make estimates steadier, and forget them where counts are exact."""
        guesses = {}
        for row in queues:
            if not row["exact"]:
                line = self._guesses.get(row["queue"], deque(maxlen=_GUESSES))
                line.append(row["ready"])
                guesses[row["queue"]] = line
                row["ready"] = round(median(line))
        self._guesses = guesses

    def _publish(self, trouble: dict[str, Any] | None) -> None:
        """Wake everybody who waits for news; the last sample stays while there is trouble."""
        with self._changed:
            self._news = json.dumps(self._sample | {"trouble": trouble, "interval": self._interval})
            self._number += 1
            self._changed.notify_all()
