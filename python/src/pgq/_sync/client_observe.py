# Written by unasync.py from _async/client_observe.py: change that one.

"""Reading the state of queues and messages without changing it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

from pgq._shared import sql
from pgq._shared.arguments import check_headers, check_numbers, check_texts, how_many
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

    def peek(self, queue: str, filter: Filter | int = None, n: int = 10) -> list[LogMessage]:
        """Return the next messages of a queue without claiming them.

        :param queue: the name of the queue.
        :param filter: the messages to return; None for all. A number here is n.
        :param n: the maximum number of messages.

        >>> [message.payload for message in client.peek("orders", 5)]
        [{'amount': 12}]
        """
        check_texts(queue=queue)
        wanted, n = how_many(filter, n, default=10)
        return self.fetch_records(LogMessage, sql.PEEK, queue, self._filter(wanted), n)

    def messages(
        self, queue: str, state: MessageState = "ready", filter: Filter = None, n: int = 50
    ) -> list[ListedMessage]:
        """List messages of a queue that are in one state, without claiming them.

        :param queue: the name of the queue.
        :param state: ready, scheduled, leased, waiting (in an ordering group) or dead.
        :param filter: the messages to list; None for all.
        :param n: the maximum number of messages.

        >>> [row.id for row in client.messages("orders", "scheduled")]
        [41, 42]
        """
        check_texts(queue=queue, state=state)
        check_numbers(n=n)
        return self.fetch_records(
            ListedMessage, sql.MESSAGES, queue, state, self._filter(filter), n
        )

    def result(self, message_id: int) -> list[Result]:
        """Return the outcome of a message: queue, state, result, error and time.

        The state is waiting, working, done or dead. A message that several queues received has one
        row per queue.

        :param message_id: the id of the message.

        >>> [row.state for row in client.result(41)]
        ['done']
        """
        check_numbers(message_id=message_id)
        return self.fetch_records(Result, sql.RESULT, message_id)

    def history(self, message_id: int) -> list[HistoryEvent]:
        """Return the events of a message, oldest first.

        :param message_id: the id of the message.

        >>> [row.event for row in client.history(41)]
        ['publish', 'claim', 'ack']
        """
        check_numbers(message_id=message_id)
        return self.fetch_records(HistoryEvent, sql.HISTORY, message_id)

    def replies(self, correlation_id: str) -> list[LogMessage]:
        """Return the messages of the log with this correlation id, oldest first.

        :param correlation_id: the correlation id of the request.

        >>> [message.payload for message in client.replies("order-17")]
        ['accepted']
        """
        check_texts(correlation_id=correlation_id)
        return self.fetch_records(LogMessage, sql.REPLIES, correlation_id)

    def queue_stats(self) -> list[QueueStats]:
        """Return counts, ages and rates, one row per queue.

        >>> {stats.queue: stats.ready for stats in client.queue_stats()}
        {'orders': 3}
        """
        return self.fetch_records(QueueStats, sql.QUEUE_STATS)

    def findings(
        self, snapshot_age: Duration = timedelta(minutes=5), role: str | None = None
    ) -> list[Finding]:
        """Return problems, the worst first: severity, queue, finding, cure.

        :param snapshot_age: a transaction of this age or more counts as long-running.
        :param role: also return the rights that this role lacks to publish and to consume.

        >>> [(row.queue, row.finding) for row in client.findings()]
        [('orders', 'no_consumer')]
        """
        check_texts(role=role)
        return self.fetch_records(Finding, sql.FINDINGS, span(snapshot_age, "snapshot_age"), role)

    def metrics(self) -> list[Metric]:
        """Return the metrics, one row per value.

        >>> [row.value for row in client.metrics() if row.name == "pgq_dead_messages"]
        [2.0]
        """
        return self.fetch_records(Metric, sql.METRICS)

    def relays(self) -> list[RelayState]:
        """Return the relays: destination, state of the circuit breaker, error.

        >>> [(row.queue, row.circuit) for row in client.relays()]
        [('orders', 'closed')]
        """
        return self.fetch_records(RelayState, sql.RELAYS)

    def matches(self, filter: Filter, headers: dict[str, Any], payload: Any = None) -> bool:
        """Whether a message with these headers and this payload would match the filter.

        :param filter: the filter.
        :param headers: the headers of the message.
        :param payload: the payload of the message.

        >>> client.matches(F.type == "paid", {"type": "paid"})
        True
        """
        wanted = self._filter(filter)
        check_headers(headers)
        return self.fetch_value(
            bool, sql.MATCHES, wanted, self._jsonb(headers), self._optional(payload)
        )

    def explain_filter(self, queue: str, filter: Filter) -> dict[str, str]:
        """Return how a filter is evaluated on a queue: lanes kept, cost, hints.

        :param queue: the name of the queue.
        :param filter: the filter.

        >>> (client.explain_filter("orders", F.type == "paid"))["lanes kept"]
        '1 of 6'
        """
        check_texts(queue=queue)
        rows = self.fetch_rows(sql.EXPLAIN_FILTER, queue, self._filter(filter))
        return dict(rows)

    def version(self) -> str:
        """Return the version of pgq in the database.

        >>> client.version()
        '0.1.0'
        """
        return self.fetch_value(str, sql.VERSION)

    def connected(self) -> bool:
        """Whether the database answers.

        >>> client.connected()
        True
        """
        try:
            self.fetch_rows(sql.PING)
        except psycopg.Error:
            return False
        return True
