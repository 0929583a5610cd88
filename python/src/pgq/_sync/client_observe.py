# Written by unasync.py from _async/client_observe.py: change that one.

"""Reading the state of queues and messages without changing it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

from pgq._shared import sql
from pgq._shared.arguments import check_numbers, check_texts, how_many
from pgq._sync.client_base import Statements
from pgq.durations import Duration, span
from pgq.filters import Filter
from pgq.options import MessageState
from pgq.rows import (
    Finding,
    HistoryEvent,
    ListedMessage,
    LogMessage,
    Metric,
    QueueStats,
    RelayState,
    Result,
)

__all__ = ["ObserveMethods"]


class ObserveMethods(Statements):
    """Read the state of queues and messages; nothing is changed."""

    def peek(self, topic: str, filter: Filter | int = None, n: int = 10) -> list[LogMessage]:
        """Return the next messages of a queue without claiming them.

        :param topic: the name of the queue.
        :param filter: the messages to return; None for all. A number here is n.
        :param n: the most messages.
        """
        check_texts(topic=topic)
        wanted, n = how_many(filter, n, default=10)
        return self.fetch_dicts(sql.PEEK, topic, self._filter(wanted), n)

    def messages(
        self, topic: str, state: MessageState = "ready", filter: Filter = None, n: int = 50
    ) -> list[ListedMessage]:
        """List messages of a queue that are in one state, without claiming them.

        :param topic: the name of the queue.
        :param state: ready, scheduled, leased, waiting (in an ordering group) or dead.
        :param filter: the messages to list; None for all.
        :param n: the most messages.
        """
        check_texts(topic=topic, state=state)
        check_numbers(n=n)
        return self.fetch_dicts(sql.MESSAGES, topic, state, self._filter(filter), n)

    def result(self, message_id: int) -> list[Result]:
        """Return the outcome of a message: queue, state, result, error and time.

        The state is waiting, working, done or dead. A message that several queues received has one
        row per queue.
        """
        return self.fetch_dicts(sql.RESULT, message_id)

    def history(self, message_id: int) -> list[HistoryEvent]:
        """Return the events of a message, oldest first."""
        return self.fetch_dicts(sql.HISTORY, message_id)

    def replies(self, correlation_id: str) -> list[LogMessage]:
        """Return the messages of the log with this correlation id, oldest first."""
        return self.fetch_dicts(sql.REPLIES, correlation_id)

    def queue_stats(self) -> list[QueueStats]:
        """Return counts, ages and rates, one row per queue."""
        return self.fetch_dicts(sql.QUEUE_STATS)

    def findings(
        self, snapshot_age: Duration = timedelta(minutes=5), role: str | None = None
    ) -> list[Finding]:
        """Return problems, the worst first: severity, queue, finding, cure.

        :param snapshot_age: a transaction of this age or more counts as long-running.
        :param role: also return the rights that this role lacks to publish and to consume.
        """
        check_texts(role=role)
        return self.fetch_dicts(sql.FINDINGS, span(snapshot_age, "snapshot_age"), role)

    def metrics(self) -> list[Metric]:
        """Return the metrics, one row per value."""
        return self.fetch_dicts(sql.METRICS)

    def relays(self) -> list[RelayState]:
        """Return the relays: destination, state of the circuit breaker, error."""
        return self.fetch_dicts(sql.RELAYS)

    def matches(self, filter: Filter, headers: dict[str, Any], payload: Any = None) -> bool:
        """Whether a message with these headers and this payload would match the filter."""
        wanted = self._filter(filter)
        return self.fetch_value(
            bool, sql.MATCHES, wanted, self._jsonb(headers), self._optional(payload)
        )

    def explain_filter(self, topic: str, filter: Filter) -> dict[str, str]:
        """Return how a filter is evaluated on a queue: lanes kept, cost, hints."""
        rows = self.fetch_rows(sql.EXPLAIN_FILTER, topic, self._filter(filter))
        return dict(rows)

    def version(self) -> str:
        """Return the version of pgq in the database."""
        return self.fetch_value(str, sql.VERSION)

    def connected(self) -> bool:
        """Whether the database answers."""
        try:
            self.fetch_rows(sql.PING)
        except psycopg.Error:
            return False
        return True
