# Written by unasync.py from _async/source.py: change that one.

"""Batches of a queue: claim until it is empty, then sleep until a notification or a due time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import psycopg
from tenacity import Retrying

from pgq._shared import sql
from pgq._shared.arguments import check_client, check_texts
from pgq._shared.log import log, reason
from pgq._shared.maintenance import is_due
from pgq._shared.threads import ASYNC, Event, Task
from pgq._shared.transient import is_transient, retry_options
from pgq._sync.batch import Batch
from pgq.consumers.config import ConsumerConfig
from pgq.errors import LeaseLost

if TYPE_CHECKING:
    from pgq._sync.client_pooled import PooledClient

__all__ = ["Source"]

T = TypeVar("T")

# The first and the largest batch size that a consumer chooses by itself.
_FIRST_SIZE = 100
_LARGEST_SIZE = 1000
# Seconds that a batch should take: faster batches grow, slower ones shrink.
_SOON, _LATE = 0.1, 0.5

_LONGEST_TICK = 5.0
_SHORTEST_TICK = 0.02


class Source:
    """Claims from one queue for one consumer, and extends the leases of batches that it holds."""

    def __init__(self, client: PooledClient, queue: str, config: ConsumerConfig) -> None:
        check_client(client, asynchronous=ASYNC)
        check_texts(queue=queue)
        self.client = client
        self.queue = queue
        self.config = config
        self.stopping = Event()
        #: Set after the first claim, or after a transient error.
        self.tried = Event()
        #: Called with a batch whose lease the queue does not extend any more, and the error.
        self.overdue: Callable[[Batch, str], None] | None = None
        self._size = config.batch_size or max(_FIRST_SIZE, config.concurrency)
        self._full_at: float | None = None
        self._waiter = uuid4().hex
        self._woken = Event()
        self._channel: str | None = None
        self._registered = False
        # Batches claimed in a row, and empty claims or wake-ups in a row that came too early.
        self._streak = 0
        self._hasty = 0
        # The clock of the server minus ours, in seconds; None before the first claim.
        self._offset: float | None = None
        self._lock = threading.Lock()
        self._held: dict[Batch, float] = {}
        self._tick = _LONGEST_TICK
        self._keeper: Task | None = None
        self._maintainer: Task | None = None
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

        The messages left in `done` are acknowledged by the first claim, or by a separate call.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._offset is None:
            self.retry_until_stopped("claiming", self._begin)
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
                batch = self.retry_until_stopped("claiming", self._claim, n or self._size)
            self.tried.set()
            if batch is None:
                return None
            if batch:
                log(
                    "DEBUG",
                    "batch_claimed",
                    "%s messages from %s",
                    len(batch),
                    self.queue,
                    queue=self.queue,
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
                continue  # messages after the refused ones may match
            if self.config.drain:
                if self._is_drained():
                    return None
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._sleep(left)

    def _adapt(self) -> None:
        """Adapt the batch size. Large batches cost less, but keep messages from other consumers."""
        full_at, self._full_at = self._full_at, None
        if full_at is None or self.config.batch_size is not None:
            return
        took = time.monotonic() - full_at
        if took < _SOON:
            self._size = min(2 * self._size, max(_LARGEST_SIZE, self._size))
        elif took > _LATE:
            self._size = max(self._size // 2, self.config.concurrency)

    def stop(self) -> None:
        """Let `fetch` return None from now on."""
        self.stopping.set()
        self._woken.set()

    def close(self) -> None:
        """Stop; release the batches that are held, and remove this consumer's registration."""
        self.stop()
        self._closed.set()
        for batch in self.held():
            self.drop(batch)
            self.settle(batch.release)
        for task in (self._keeper, self._maintainer):
            if task is not None:
                task.cancel()
                task.join()
        if self._channel is not None:
            self.client.listener.leave(self._channel, self._woken)
            self._channel = None
        if self._registered:
            self._registered = False
            try:
                self.client.wait_end(self.queue, self._waiter)
            except Exception as error:  # the registration expires by itself
                log("DEBUG", "waiter_left", "wait_end: %s", reason(error), queue=self.queue)

    def retry_until_stopped(
        self, what: str, function: Callable[..., T], *arguments: Any
    ) -> T | None:
        """Call a function, and again after each transient error; return None if stopped."""
        try:
            return function(*arguments)
        except psycopg.Error as error:
            if not is_transient(error):
                raise
            self.tried.set()
            log(
                "WARNING",
                "transient_error",
                "%s from %s failed: %s",
                what,
                self.queue,
                reason(error),
                queue=self.queue,
                doing=what,
                sqlstate=error.sqlstate,
            )
        try:
            for attempt in Retrying(**retry_options(self.stopping, what)):
                with attempt:
                    return function(*arguments)
        except psycopg.Error as error:
            if not is_transient(error):
                raise
        return None

    def _begin(self) -> None:
        listens = self.config.notifications and self.client.poll_interval is None
        if listens and not self.config.drain and self._channel is None:
            # Listen before the first claim: a message published in between is then noticed.
            self._hear(self.client.channel(self.queue))
        rows = self.client.fetch_rows(sql.NOW, repeatable=True)
        self._offset = (rows[0][0] - datetime.now(UTC)).total_seconds()
        if self.config.maintain and self._maintainer is None:
            self._maintainer = Task("pgq-maintainer", self._maintain)

    def _claim_after(self, done: Batch, n: int) -> Batch | None:
        """Acknowledge a batch and claim the next in one call.

        If that fails, acknowledge in a separate call; after a stale lease or a transient error,
        return None.
        """
        try:
            return self._claim(n, done)
        except BaseException as error:
            self.settle(done.ack)  # logs a stale lease
            done.finish()
            if isinstance(error, LeaseLost) or is_transient(error):
                return None
            raise

    def _claim(self, n: int, done: Batch | None = None) -> Batch:
        config = self.config
        return self.client.claim(
            self.queue,
            config.filter,
            n,
            lease=config.lease,
            done=done,
            where=config.where,
            payload_type=config.payload_type,
            refused_delay=config.refused_delay,
        )

    def _is_drained(self) -> bool:
        """Whether nothing is ready. A claim alone may miss rows that another claim has locked."""
        self._hasty += 1
        peek = self.client.peek, self.queue, self.config.filter, 1
        if self._hasty > 20 or not self.retry_until_stopped("looking", *peek):
            return True
        self.stopping.wait(0.01 * self._hasty)
        return False

    def _busy(self) -> None:
        """Count a batch; after two in a row, stop being notified: a busy consumer only claims."""
        self._streak += 1
        if self._registered and self._streak == 2:
            self._registered = False
            self.retry_until_stopped("waking", self.client.wait_end, self.queue, self._waiter)

    def _sleep(self, most: float | None) -> None:
        span = (self.client.poll_interval or self.config.poll_interval).total_seconds()
        if self._channel is not None and self.client.listener.hears(self._channel):
            self._registered = True
            found = self.retry_until_stopped("waiting", self._register)
            if found is None:
                return
            wanted = found.total_seconds()
            if wanted <= 0:
                # Some early wake-ups are normal; a paused queue may cause many.
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
        """Register this consumer as a listener; return how long it may sleep."""
        rows = self.client.fetch_rows(
            sql.WAIT_BEGIN_CHANNEL,
            self.queue,
            self._waiter,
            self.config.idle_timeout,
            self.queue,
            repeatable=True,
        )
        span: timedelta
        span, channel = rows[0]
        if channel == self._channel:
            return span
        self._hear(channel)
        return timedelta(0)

    def _hear(self, channel: str) -> None:
        """Listen to a channel; a queue that was dropped and created again has a new one."""
        if self._channel is not None:
            self.client.listener.leave(self._channel, self._woken)
        self._channel = channel
        self.client.listener.join(channel, self._woken)

    # Holding

    def hold(self, batch: Batch) -> None:
        """Extend the lease of a batch until `drop` is called."""
        if batch.lease_until is None:
            return
        lease = self._left(batch)
        with self._lock:
            self._held[batch] = time.monotonic() + lease / 3
            self._tick = min(self._tick, max(lease / 6, _SHORTEST_TICK))
            if self._keeper is None:
                self._keeper = Task("pgq-keeper", self._keep)

    def drop(self, batch: Batch) -> None:
        """Stop extending the lease of a batch."""
        with self._lock:
            self._held.pop(batch, None)

    def held(self) -> list[Batch]:
        """Return the batches that are being held."""
        with self._lock:
            return list(self._held)

    def _left(self, batch: Batch) -> float:
        """Return the remaining seconds of the lease, by the clock of the server."""
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

    def _renew(self, batch: Batch) -> None:
        try:
            batch.extend(self.config.lease)
        except LeaseLost:
            if batch in self.held():
                self.drop(batch)
                log(
                    "WARNING",
                    "lease_lost",
                    "the lease of a batch from %s is lost",
                    self.queue,
                    queue=self.queue,
                    lease_id=batch.lease_id,
                )
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            if self.overdue is not None:
                self.overdue(batch, reason(error))
        except psycopg.Error as error:
            log(
                "WARNING",
                "lease_not_renewed",
                "a lease was not renewed: %s",
                reason(error),
                queue=self.queue,
                lease_id=batch.lease_id,
                sqlstate=error.sqlstate,
            )
        else:
            with self._lock:
                if batch in self._held:
                    self._held[batch] = time.monotonic() + self._left(batch) / 3

    def _maintain(self) -> None:
        """Call maintain() about once a minute, also while the queue is empty."""
        while not self._closed.wait(_LONGEST_TICK):
            if not is_due(self.client.conninfo):
                continue
            try:
                self.client.maintain()
            except psycopg.Error as error:
                text = reason(error)
                log("DEBUG", "upkeep_failed", "maintain: %s", text, sqlstate=error.sqlstate)

    # Ending

    def settle(self, function: Callable[..., int], *arguments: Any, **options: Any) -> None:
        """Acknowledge or release messages; log a stale lease, and retry after transient errors."""

        def call() -> int:
            return function(*arguments, **options)

        try:
            self.retry_until_stopped("settling", call)
        except LeaseLost as error:
            log(
                "WARNING",
                "messages_redelivered",
                "messages from %s will be delivered again: %s",
                self.queue,
                error,
                queue=self.queue,
            )
