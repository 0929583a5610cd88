# Written by unasync.py from _async/client_claim.py: change that one.

"""Claims, and how leases end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg import Cursor
from psycopg.rows import scalar_row

from pgq._shared import sql
from pgq._shared.arguments import (
    Named,
    check_texts,
    how_many,
    lease_and_ids,
)
from pgq._sync.batch import Batch
from pgq._sync.client_base import Statements
from pgq.durations import Duration, duration, span
from pgq.filters import F, Filter
from pgq.message import Message, received

__all__ = ["ClaimMethods"]


class ClaimMethods(Statements):
    """Claim messages; acknowledge, refuse, release or bury them."""

    def claim(
        self,
        topic: str,
        filter: Filter | int = None,
        n: int = 1,
        *,
        lease: Duration | None = None,
        key: str | None = None,
        done: Batch | None = None,
        where: Callable[[Message], bool] | None = None,
        refused_delay: Duration = timedelta(0),
        payload_type: Any = None,
    ) -> Batch:
        """Claim up to n messages that match the filter, for the duration of a lease.

        :param topic: the name of the queue.
        :param filter: the messages to claim; None for all. A number here is n:
            ``claim("orders", 10)``.
        :param n: the most messages.
        :param lease: the lease duration; the queue's if None.
        :param key: the name of the claim. The same name again returns the same messages while the
            lease lasts.
        :param done: the batch before. What is left of it is acknowledged in the same transaction.
        :param where: a test in the client. What it refuses is released after `refused_delay`,
            without counting the attempt.
        :param payload_type: what payloads are made: a dataclass, a model of pydantic, any type
            hint. Messages that do not fit are refused.

        >>> with client.claim("orders", F.type == "refund", 10) as batch:
        ...     for message in batch:
        ...         print(message.payload)
        """
        check_texts(topic=topic, key=key)
        wanted_filter, n = how_many(filter, n)
        wanted = self._filter(wanted_filter)
        before = None if done is None else done.unfinished
        messages: list[Message] = self.fetch_rows(
            sql.CLAIM,
            topic,
            wanted,
            n,
            span(lease, "lease"),
            key,
            before,
            factory=_messages,
            repeatable=before is None,
        )
        if done is not None:
            done.finish()
        batch = Batch(self, messages)
        batch.read(payload_type)
        if where is not None and batch:
            batch.keep(where, delay=duration(refused_delay, "refused_delay"))
        return batch

    def claim_by_id(self, topic: str, message_id: int, *, lease: Duration | None = None) -> Batch:
        """Take this message of a queue, if nobody else has it; a batch of one or none."""
        return self.claim(topic, F.msg.id == message_id, lease=lease)

    def leased(self, lease_id: int) -> Batch:
        """Return the messages that a lease holds, again."""
        messages: list[Message] = self.fetch_rows(
            sql.LEASED, lease_id, factory=_messages, repeatable=True
        )
        batch = Batch(self, messages)
        batch.read(None)
        return batch

    def ack(self, lease_id: int | Message, ids: Named = None) -> int:
        """Acknowledge messages of a lease, or all that it holds; return how many."""
        return self.fetch_value(int, sql.ACK, *lease_and_ids(lease_id, ids))

    def finish(self, lease_id: int, id: int, result: Any = None) -> None:
        """Acknowledge one message of a lease and keep a result, as long as the log is kept."""
        self.fetch_rows(sql.FINISH, lease_id, id, self._optional(result))

    def nack(
        self,
        lease_id: int | Message,
        ids: Named = None,
        *,
        delay: Duration | None = None,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Refuse messages of a lease: they are retried, or become dead letters."""
        return self.fetch_value(
            int,
            sql.NACK,
            *lease_and_ids(lease_id, ids),
            span(delay, "delay"),
            _text(error),
            self._optional(details),
        )

    def release(
        self,
        lease_id: int | Message,
        ids: Named = None,
        *,
        delay: Duration = timedelta(0),
    ) -> int:
        """Give messages of a lease back without counting the attempt."""
        return self.fetch_value(
            int, sql.RELEASE, *lease_and_ids(lease_id, ids), span(delay, "delay")
        )

    def bury(
        self,
        lease_id: int | Message,
        ids: Named = None,
        *,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Make messages of a lease dead letters."""
        return self.fetch_value(
            int, sql.BURY, *lease_and_ids(lease_id, ids), _text(error), self._optional(details)
        )

    def extend(self, lease_id: int, lease: Duration | None = None) -> datetime | None:
        """Hold the messages of a lease for longer; return until when (None: it has no end)."""
        longer = span(lease, "lease")
        rows = self.fetch_rows(sql.EXTEND, lease_id, longer, factory=scalar_row, repeatable=True)
        until: datetime | None = rows[0]
        return until

    def seen(self, handler: str, message_id: int, *, size: int = 100) -> bool:
        """Whether the handler has seen the message; it has now. Call it with the work."""
        return self.fetch_value(bool, sql.SEEN, handler, message_id, size)

    def channel(self, topic: str) -> str:
        """Return the channel to listen to for messages of a queue."""
        return self.fetch_value(str, sql.CHANNEL, topic)

    def wait_begin(self, topic: str, waiter: str, timeout: Duration) -> timedelta:
        """Say that a consumer is about to sleep; return how long it may."""
        rows = self.fetch_rows(
            sql.WAIT_BEGIN,
            topic,
            waiter,
            duration(timeout, "timeout"),
            factory=scalar_row,
            repeatable=True,
        )
        until: timedelta = rows[0]
        return until

    def wait_end(self, topic: str, waiter: str) -> bool:
        """Say that a consumer is awake."""
        return self.fetch_value(bool, sql.WAIT_END, topic, waiter)

    def stream_begin(
        self,
        topic: str,
        consumer: str,
        owner: str,
        timeout: Duration = timedelta(seconds=30),
        lease: Duration | None = None,
    ) -> int:
        """Take the name of a consumer of a queue, or keep it; return its last finished batch."""
        return self.fetch_value(
            int,
            sql.STREAM_BEGIN,
            topic,
            consumer,
            owner,
            duration(timeout, "timeout"),
            span(lease, "lease"),
        )


def _messages(cursor: Cursor[Any]) -> Callable[[Sequence[Any]], Message]:
    return received


def _text(text: str | None) -> str | None:
    """Return a text as PostgreSQL can store it."""
    return None if text is None else text.replace("\0", "\ufffd")
