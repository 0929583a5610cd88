"""The loop of a relay: claim, forward, acknowledge."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from pgq._shared import sql
from pgq._shared.log import log, reason
from pgq._shared.maintenance import is_due
from pgq._shared.owner import is_dead, myself
from pgq._shared.threads import Task, on_signals
from pgq._sync.batch import Batch
from pgq._sync.source import Source
from pgq.consumers.config import ConsumerConfig
from pgq.durations import Duration, duration, span
from pgq.errors import CircuitOpen, LeaseLost
from pgq.relay.destination import Busy, Destination, Record
from pgq.transports.breaker import CircuitBreaker

if TYPE_CHECKING:
    from pgq._sync.client_pooled import PooledClient

__all__ = ["Relay"]

_LONGEST_PAUSE = 10.0


class Relay:
    """Forwards the messages of a queue to a destination, until stopped.

    The claims of a relay are the numbered batches of a stream. A relay that is killed between
    sending and acknowledging sends the same batch again, under the same name, when it is restarted:
    the destination can recognize the duplicate. A second relay of the same name waits until the
    first one has ended.

    While the destination cannot be reached, no attempt of a message is counted: after several
    failures a circuit breaker opens, and the relay pauses. Only messages whose content the
    destination refuses are retried by the queue's policy and become dead letters.

    :param client: the result of `connect`.
    :param queue: the queue to forward.
    :param destination: the target, for example from `open_destination`.
    :param name: the name of the relay: the same after a restart, unique among the queue's relays.
    :param batch_size: the number of messages of a batch; None for the destination's default.
    :param linger: how long to wait for a full batch; None for the destination's default.
    :param breaker: a circuit breaker with other limits.
    :param timeout: after this time without a heartbeat, another relay can take the name.
    :param drain: end when nothing is ready, instead of waiting for more.

    >>> Relay(client, "audit", open_destination("redis://localhost/0", queue="audit")).run()
    """

    def __init__(
        self,
        client: PooledClient,
        queue: str,
        destination: Destination,
        *,
        name: str = "relay",
        batch_size: int | None = None,
        linger: Duration | None = None,
        breaker: CircuitBreaker | None = None,
        timeout: Duration = timedelta(seconds=30),
        drain: bool = False,
    ) -> None:
        self.queue = queue
        self.name = name
        self.destination = destination
        self.breaker = breaker or CircuitBreaker()
        #: How many messages were forwarded, how many were refused, and how often sending failed.
        self.forwarded = 0
        self.refused = 0
        self.failures = 0
        self._streak = 0
        size = destination.batch_size if batch_size is None else batch_size
        pause = span(linger, "linger")
        wait = destination.linger if pause is None else pause.total_seconds()
        self._client = client
        self._batches = _Batches(
            client,
            queue,
            name,
            ConsumerConfig(batch_size=size, drain=drain),
            duration(timeout, "timeout"),
            wait,
        )
        self._reported: tuple[str, str | None] | None = None
        self._error: str | None = None

    def run(self, *, signals: bool = True) -> None:
        """Forward until `stop`, or in the main thread until SIGTERM or SIGINT."""
        batches = self._batches
        with on_signals(self.stop, signals):
            try:
                while batches.take_name():
                    self._report()
                    try:
                        self._forward()
                        break
                    except (_InUse, LeaseLost) as error:
                        log(
                            "WARNING",
                            "relay_restarted",
                            "relay %s starts again: %s",
                            self.name,
                            reason(error),
                            queue=self.queue,
                            relay=self.name,
                        )
            finally:
                batches.close()
                if batches.give_name():
                    self._send_report(None, "closed", None)
                self.destination.close()

    def stop(self) -> None:
        """Claim nothing more; the current batch may still be sent."""
        self._batches.stop()

    # Implementation

    def _forward(self) -> None:
        while True:
            self._rest_while_open()
            batch = self._batches.fetch()
            if batch is None:
                return
            self._deliver(batch)

    def _deliver(self, batch: Batch) -> None:
        """Send a batch until it has arrived.

        Otherwise keep the batch claimed if it may have arrived, else release it.
        """
        records: list[Any] = batch.messages
        # The first batch may be one that the relay sent before it was killed.
        doubt = self._batches.first and self.destination.keeps_batches
        while self._batches.keep_name():
            before = self.breaker.state
            try:
                with self.breaker.guard(_is_failure):
                    refused = self.destination.send(str(batch.lease_id), records)
            except Busy as busy:
                self._error = str(busy)
                self._report()
                self._batches.stopping.wait(busy.delay)
            except CircuitOpen:  # another relay with this breaker makes the trial call
                self._batches.stopping.wait(0.25)
            except Exception as error:
                self._fail(error, before)
                if not self.destination.keeps_batches:
                    break
                doubt = True
                self._pause()
            else:
                self._arrived(batch, refused)
                return
        if doubt:
            # The batch may have arrived: only the same batch may be sent again.
            log(
                "WARNING",
                "batch_kept",
                "relay %s: a batch stays claimed for its next start",
                self.name,
                queue=self.queue,
                relay=self.name,
                lease_id=batch.lease_id,
            )
            return
        self._batches.settle(batch.release)
        self._pause()

    def _arrived(self, batch: Batch, refused: Mapping[int, str]) -> None:
        self._streak = 0
        self._error = None
        self._report()
        reasons: dict[str, list[Any]] = {}
        for record in batch.messages:
            if record.id in refused:
                reasons.setdefault(refused[record.id], []).append(record)
        for why, records in reasons.items():
            log(
                "WARNING",
                "messages_refused",
                "%s refused %s messages: %s",
                self.destination.label,
                len(records),
                why,
                queue=self.queue,
                relay=self.name,
                size=len(records),
            )
            self._batches.settle(batch.nack, records, error=why)
        if refused.keys() & {record.id for record in batch.left}:
            return  # a nack failed: the batch is not done
        self.refused += len(refused)
        self.forwarded += len(batch) - len(refused)
        self._batches.done()

    def _fail(self, error: Exception, before: str) -> None:
        self.failures += 1
        self._streak += 1
        self._error = f"{type(error).__name__}: {error}".strip()
        log(
            "WARNING",
            "relay_failed",
            "sending to %s failed: %s",
            self.destination.label,
            self._error,
            queue=self.queue,
            relay=self.name,
        )
        if self.breaker.state == "open" and before == "closed":
            log(
                "WARNING",
                "circuit_opened",
                "%s is left alone for a while",
                self.destination.label,
                queue=self.queue,
                relay=self.name,
            )
        self._report()

    def _pause(self) -> None:
        """Wait before the next attempt, or until the circuit breaker allows it."""
        if self.breaker.state == "closed":
            self._batches.stopping.wait(min(0.125 * 2 ** min(self._streak, 10), _LONGEST_PAUSE))
        else:
            self._rest_while_open()

    def _rest_while_open(self) -> None:
        while self.breaker.state == "open":
            if self._batches.stopping.wait(min(0.25, self.breaker.left)):
                return
        self._report()

    def _report(self) -> None:
        """Report a change of the circuit or the error to the database."""
        now = (self.breaker.state, self._error)
        if now != self._reported:
            self._reported = now
            self._send_report(self.destination.label, *now)

    def _send_report(self, label: str | None, circuit: str, error: str | None) -> None:
        try:
            self._client.fetch_rows(
                sql.RELAY_REPORT, self.queue, self.name, label, circuit, error, repeatable=True
            )
        except psycopg.Error as failure:
            self._reported = None
            log(
                "DEBUG",
                "relay_unreported",
                "relay_report: %s",
                reason(failure),
                queue=self.queue,
                relay=self.name,
            )


class _Batches(Source):
    """The numbered batches of a stream, and the ownership of its name."""

    def __init__(
        self,
        client: PooledClient,
        queue: str,
        name: str,
        config: ConsumerConfig,
        timeout: timedelta,
        linger: float,
    ) -> None:
        super().__init__(client, queue, config)
        self._name = name
        self._owner = myself()
        self._timeout = timeout.total_seconds()
        self._linger = 0.0 if config.drain else linger
        #: Whether no batch has arrived since the name was taken.
        self.first = True
        self._finished = 0
        self._arrived = False
        self._renewed: float | None = None
        self._beat: Task | None = None

    # The name

    def take_name(self) -> bool:
        """Wait until this process owns the name; False if stopped meanwhile."""
        logged = False
        while not self.stopping.is_set():
            try:
                finished = self.retry_until_stopped("beginning", self._begin_stream)
                if finished is not None:
                    self._finished, self._arrived, self.first = finished, False, True
                    break
            except _InUse as error:
                if is_dead(error.owner):
                    self._ask(sql.STREAM_END, self.queue, self._name, error.owner)
                    continue
                if not logged:
                    log(
                        "WARNING",
                        "relay_waits",
                        "%s: waiting for it",
                        error,
                        queue=self.queue,
                        relay=self._name,
                    )
                    logged = True
                self.stopping.wait(min(1.0, self._timeout / 10))
        if self._beat is None and self._renewed is not None:
            self._beat = Task("pgq-relay-beat", self._keep_name)
        return not self.stopping.is_set()

    def keep_name(self) -> bool:
        """Renew the ownership if that is due; raise if another process owns the name.

        Returns False if the relay was stopped.
        """
        if time.monotonic() > (self._renewed or 0.0) + self._timeout * 0.9:
            finished = self.retry_until_stopped("keeping the name", self._begin_stream)
            if finished not in (None, self._finished):
                raise _InUse("another relay has taken the name", "")
        return not self.stopping.is_set()

    def give_name(self) -> bool:
        """Acknowledge the last batch and release the name; False if another process owns it."""
        if self._beat is None:
            return False
        self._beat.join(5)
        try:
            if self._arrived:
                self._finish()
            ((given,),) = self._ask(sql.STREAM_END, self.queue, self._name, self._owner)
        except (psycopg.Error, _InUse) as error:  # the ownership expires by itself
            log(
                "DEBUG",
                "name_kept",
                "ending: %s",
                reason(error),
                queue=self.queue,
                relay=self._name,
            )
            return False
        return bool(given)

    def _begin_stream(self) -> int:
        """Take or renew the ownership of the name; return the last finished batch."""
        began = time.monotonic()
        span = timedelta(seconds=self._timeout)
        ((finished,),) = self._ask(
            sql.STREAM_BEGIN, self.queue, self._name, self._owner, span, None
        )
        self._renewed = began
        return int(finished)

    def _keep_name(self) -> None:
        while not self._closed.wait(self._timeout / 3):
            try:
                self._begin_stream()
                if is_due(self.client.conninfo):
                    self._maintain()
            except (psycopg.Error, _InUse) as error:  # the next `keep_name` raises it
                log(
                    "DEBUG",
                    "name_not_renewed",
                    "keeping the name: %s",
                    reason(error),
                    queue=self.queue,
                    relay=self._name,
                )

    # Batches

    def done(self) -> None:
        """Record that the batch has arrived: the next claim acknowledges it."""
        self._arrived, self.first = True, False

    def _claim(self, n: int, done: Batch | None = None) -> Batch:
        if self._linger:
            if self._arrived:
                self._finish()
            self._gather(n)
        number = self._finished + (2 if self._arrived else 1)
        rows = self._ask(
            sql.RELAY_CLAIM, self.queue, self._name, self._owner, number, n, factory=_records
        )
        self._finished, self._arrived = number - 1, False
        return Batch(self.client, rows)

    def _finish(self) -> None:
        number = self._finished + 1
        self._ask(sql.STREAM_FINISH, self.queue, self._name, self._owner, number)
        self._finished, self._arrived = number, False

    def _gather(self, n: int) -> None:
        """Wait until a full batch is ready, at most for the time of `linger`."""
        deadline: float | None = None
        while not self.stopping.is_set():
            ((ready, grouped),) = self._ask(sql.BACKLOG, self.queue, self.queue)
            # A group delivers one message at a time, so its batches never fill.
            if ready == 0 or ready >= n or grouped:
                return
            now = time.monotonic()
            deadline = deadline or now + self._linger
            if now >= deadline:
                return
            self.stopping.wait(min(1.0, deadline - now))

    def _ask(self, statement: LiteralString, *values: Any, factory: Any = None) -> list[Any]:
        """Run a statement that may run twice."""
        try:
            return self.client.fetch_rows(statement, *values, factory=factory, repeatable=True)
        except psycopg.errors.ObjectInUse as error:
            owner = (error.diag.message_detail or "").partition(" has it until ")[0]
            raise _InUse(error.diag.message_primary or "the name is in use", owner) from None


class _InUse(Exception):
    """Another process owns the name."""

    def __init__(self, message: str, owner: str) -> None:
        super().__init__(message)
        self.owner = owner


def _is_failure(error: Exception) -> bool:
    return not isinstance(error, Busy | CircuitOpen)


def _records(cursor: Any) -> Callable[[Sequence[Any]], Record]:
    return lambda values: Record(*values)
