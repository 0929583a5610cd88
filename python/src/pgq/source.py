# Written by unasync.py from source_async.py: change that one.

"""Batches of a queue as they come: claim until empty, sleep until notified, due or in doubt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import psycopg
from tenacity import Retrying

from pgq import _sql
from pgq._log import log, reason
from pgq._threads import Event, Task
from pgq._trouble import is_trouble, patience
from pgq._upkeep import is_due
from pgq.batch import Batch
from pgq.config import ConsumerConfig
from pgq.errors import LeaseLost

if TYPE_CHECKING:
    from pgq.client import PooledClient

__all__ = ["Source"]

T = TypeVar("T")

# Where a consumer begins that has not been told how much to claim at once, and where it ends.
_FIRST_SIZE = 100
_LARGEST_SIZE = 1000
# It claims more if that took less of a second than this, and less if it took more.
_SOON, _LATE = 0.1, 0.5

_LONGEST_TICK = 5.0
_SHORTEST_TICK = 0.02


class Source:
    """Claims from one queue for one consumer, and renews the leases of what it is told to hold."""

    def __init__(self, client: PooledClient, topic: str, config: ConsumerConfig) -> None:
        self.client = client
        self.topic = topic
        self.config = config
        self.stopping = Event()
        self._size = config.batch_size or max(_FIRST_SIZE, config.concurrency)
        self._full_at: float | None = None
        self._waiter = uuid4().hex
        self._woken = Event()
        self._joined = False
        self._signal: str | None = None
        self._registered = False
        self._streak = 0
        self._hasty = 0
        self._offset: float | None = None
        self._lock = threading.Lock()
        self._held: dict[Batch, float] = {}
        self._tick = _LONGEST_TICK
        self._keeper: Task | None = None
        self._closed = Event()

    # Claiming

    def fetch(
        self,
        n: int | None = None,
        *,
        timeout: float | None = None,
        done: Batch | None = None,
    ) -> Batch | None:
        """Return the next batch; None after `stop`, after the timeout, or if drained.

        What is left of `done` is acknowledged: with the first claim, or at once if there is none.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._offset is None:
            self.patiently("claiming", self._begin)
        self._adapt()
        while True:
            self._woken.clear()
            if self.stopping.is_set():
                if done is not None:
                    self.settle(done.ack)
                return None
            batch = None if done is None else self._claim_after(done, n or self._size)
            done = None
            if batch is None:
                batch = self.patiently("claiming", self._claim, n or self._size)
            if batch is None:
                return None
            if batch:
                log(
                    *("DEBUG", "batch_claimed", "%s messages from %s", len(batch), self.topic),
                    queue=self.topic,
                    lease_id=batch.lease_id,
                    size=len(batch),
                )
                self._hasty = 0
                self._busy()
                if len(batch) == self._size:
                    self._full_at = time.monotonic()
                return batch
            self._streak = 0
            if batch.refused:
                continue  # there may be others behind them
            if self.config.drain:
                if self._is_drained():
                    return None
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._sleep(left)

    def _adapt(self) -> None:
        """Find out how much to claim: large claims are cheap, but nobody else can have them."""
        full_at, self._full_at = self._full_at, None
        if full_at is None or self.config.batch_size is not None:
            return
        took = time.monotonic() - full_at
        if took < _SOON:
            self._size = min(2 * self._size, max(_LARGEST_SIZE, self._size))
        elif took > _LATE:
            self._size = max(self._size // 2, self.config.concurrency)

    def stop(self) -> None:
        """Let `fetch` return None, now and from now on."""
        self.stopping.set()
        self._woken.set()

    def close(self) -> None:
        """Stop, and leave no trace in the database; what is held is given back."""
        self.stop()
        self._closed.set()
        for batch in self.held():
            self.drop(batch)
            self.settle(batch.release)
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper.join()
        if self._joined:
            self.client.listener.leave(self.topic, self._woken)
            self._hear(None)
            self._joined = False
        if self._registered:
            self._registered = False
            try:
                self.client.wait_end(self.topic, self._waiter)
            except Exception as error:  # it is forgotten after a while
                log("DEBUG", "waiter_left", "wait_end: %s", reason(error), queue=self.topic)

    def patiently(self, what: str, function: Callable[..., T], *arguments: Any) -> T | None:
        """Call a function until the connection lets it work; None if stopped meanwhile."""
        try:
            return function(*arguments)
        except psycopg.Error as error:
            if not is_trouble(error):
                raise
            log(
                *("WARNING", "database_trouble", "%s from %s failed: %s"),
                *(what, self.topic, reason(error)),
                queue=self.topic,
                doing=what,
                sqlstate=error.sqlstate,
            )
        try:
            for attempt in Retrying(**patience(self.stopping, what)):
                with attempt:
                    return function(*arguments)
        except psycopg.Error as error:
            if not is_trouble(error):
                raise
        return None

    def _begin(self) -> None:
        if self.config.notifications and not self.config.drain and not self._joined:
            # Listen first, and claim then: what comes between is heard.
            self.client.listener.join(self.topic, self._woken)
            self._joined = True
        rows = self.client._rows(_sql.NOW, repeatable=True)
        self._offset = (rows[0][0] - datetime.now(UTC)).total_seconds()

    def _claim_after(self, done: Batch, n: int) -> Batch | None:
        """Acknowledge and claim by one call; if that fails, only acknowledge, and return None."""
        try:
            return self._claim(n, done)
        except BaseException as error:
            self.settle(done.ack)  # which says so if the lease is lost
            done.finish()
            if isinstance(error, LeaseLost) or is_trouble(error):
                return None
            raise

    def _claim(self, n: int, done: Batch | None = None) -> Batch:
        config = self.config
        return self.client.claim(
            self.topic,
            config.filter,
            n,
            lease=config.lease,
            done=done,
            where=config.where,
            refused_delay=config.refused_delay,
        )

    def _is_drained(self) -> bool:
        """Whether nothing is ready: a claim misses what somebody else holds for a moment."""
        self._hasty += 1
        looking = self.client.peek, self.topic, self.config.filter, 1
        if self._hasty > 20 or not self.patiently("looking", *looking):
            return True
        self.stopping.wait(0.01 * self._hasty)
        return False

    def _busy(self) -> None:
        """There is work: who has more of it soon need not be notified."""
        self._streak += 1
        if self._registered and self._streak == 2:
            self._registered = False
            self.patiently("waking", self.client.wait_end, self.topic, self._waiter)

    def _sleep(self, most: float | None) -> None:
        span = self.config.poll_interval.total_seconds()
        if self._joined and self.client.listener.hears:
            self._registered = True
            found = self.patiently("waiting", self._register)
            if found is None:
                return
            wanted = found.total_seconds()
            if wanted <= 0:
                # Once or twice is the protocol; a paused queue may say so again and again.
                self._hasty += 1
                if self._hasty <= 4:
                    return
                wanted = 0.01 * 2 ** min(self._hasty - 4, 10)
                span = min(wanted, span)
            else:
                self._hasty = 0
                span = wanted
        self._woken.wait(span if most is None else min(span, most))

    def _register(self) -> timedelta:
        """Say that this consumer is about to sleep; return how long it may."""
        rows = self.client._rows(
            _sql.WAIT_BEGIN_SIGNAL,
            *(self.topic, self._waiter, self.config.idle_timeout, self.topic),
            repeatable=True,
        )
        span: timedelta
        span, signal = rows[0]
        self._hear(signal)
        return span

    def _hear(self, signal: str | None) -> None:
        """Be woken by this as well as by the name; a queue that was made anew has another."""
        if signal != self._signal:
            if self._signal is not None:
                self.client.listener.leave(self._signal, self._woken)
            if signal is not None:
                self.client.listener.join(signal, self._woken)
            self._signal = signal

    # Holding

    def hold(self, batch: Batch) -> None:
        """Renew the lease of a batch until it is dropped."""
        if batch.lease_until is None:
            return
        lease = self._left(batch)
        with self._lock:
            self._held[batch] = time.monotonic() + lease / 3
            self._tick = min(self._tick, max(lease / 6, _SHORTEST_TICK))
            if self._keeper is None:
                self._keeper = Task("pgq-keeper", self._keep)

    def drop(self, batch: Batch) -> None:
        """Leave the lease of a batch alone."""
        with self._lock:
            self._held.pop(batch, None)

    def held(self) -> list[Batch]:
        """Return the batches that are being held."""
        with self._lock:
            return list(self._held)

    def _left(self, batch: Batch) -> float:
        """Return how long the lease lasts, in seconds, by the clock of the server."""
        if self.config.lease is not None:
            return self.config.lease.total_seconds()
        if batch.lease_until is None:
            return 0.0
        return (batch.lease_until - datetime.now(UTC)).total_seconds() - (self._offset or 0.0)

    def _keep(self) -> None:
        while not self._closed.wait(self._tick):
            now = time.monotonic()
            with self._lock:
                due = [batch for batch, at in self._held.items() if at <= now]
            for batch in due:
                self._renew(batch)
            if self.config.maintain and is_due(self.client.conninfo):
                self._maintain()

    def _renew(self, batch: Batch) -> None:
        try:
            batch.extend(self.config.lease)
        except LeaseLost:
            if batch in self.held():
                self.drop(batch)
                log(
                    *("WARNING", "lease_lost", "the lease of a batch from %s is lost", self.topic),
                    queue=self.topic,
                    lease_id=batch.lease_id,
                )
        except psycopg.Error as error:
            log(
                *("WARNING", "lease_not_renewed", "a lease was not renewed: %s"),
                reason(error),
                queue=self.topic,
                lease_id=batch.lease_id,
                sqlstate=error.sqlstate,
            )
        else:
            with self._lock:
                if batch in self._held:
                    self._held[batch] = time.monotonic() + self._left(batch) / 3

    def _maintain(self) -> None:
        try:
            self.client.maintain()
        except psycopg.Error as error:
            log("DEBUG", "upkeep_failed", "maintain: %s", reason(error), sqlstate=error.sqlstate)

    # Ending

    def settle(self, function: Callable[..., int], *arguments: Any, **options: Any) -> None:
        """Acknowledge or give back; a lost lease is said, and trouble waited for."""

        def call() -> int:
            return function(*arguments, **options)

        try:
            self.patiently("settling", call)
        except LeaseLost as error:
            log(
                *(
                    "WARNING",
                    "messages_redelivered",
                    "messages from %s will be delivered again: %s",
                ),
                *(self.topic, error),
                queue=self.topic,
            )
