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
    check_functions,
    check_numbers,
    check_texts,
    how_many,
    lease_and_ids,
)
from pgq._sync.batch import Batch
from pgq._sync.client_base import Statements
from pgq.durations import Duration, duration, span
from pgq.filters import F, Filter
from pgq.message import Message
from pgq.payloads.typed import check_type

__all__ = ["ClaimMethods"]


class ClaimMethods(Statements):
    """Claim messages; acknowledge (ack), refuse (nack), release or bury them."""

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
        :param n: the maximum number of messages.
        :param lease: the lease duration; None for the queue's.
        :param key: the name of the claim. Another claim with this key returns the same messages
            until they have ended.
        :param done: the previous batch. Its remaining messages are acknowledged in the same
            transaction.
        :param where: a test in the client. Messages that fail the test are released without
            counting the attempt, and are not delivered again before `refused_delay`.
        :param payload_type: the type that payloads are converted to: a dataclass, a model of
            pydantic, any type hint. A message whose payload does not fit is refused (nack).

        >>> with client.claim("orders", F.type == "refund", 10) as batch:
        ...     for message in batch:
        ...         print(message.payload)
        """
        check_texts(topic=topic, key=key)
        check_functions(where=where)
        check_type(payload_type, "payload_type")
        wanted_filter, n = how_many(filter, n)
        wanted = self._filter(wanted_filter)
        if done is not None and not isinstance(done, Batch):
            raise TypeError(f"done is the batch of an earlier claim, not {done!r}")
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

    def claim_by_id(self, queue: str, message_id: int, *, lease: Duration | None = None) -> Batch:
        """Claim the message with this id; return an empty batch if it is not ready.

        :param queue: the name of the queue.
        :param message_id: the id of the message.
        :param lease: the lease duration; None for the queue's.

        >>> [message] = client.claim_by_id("orders", 41)
        """
        return self.claim(queue, F.msg.id == message_id, lease=lease)

    def leased(self, lease_id: int) -> Batch:
        """Return the messages that a lease still holds, for example after a restart.

        :param lease_id: the id of the lease.

        >>> [message.id for message in client.leased(lease_id)]
        [41, 42]
        """
        check_numbers(lease_id=lease_id)
        messages: list[Message] = self.fetch_rows(
            sql.LEASED, lease_id, factory=_messages, repeatable=True
        )
        batch = Batch(self, messages)
        batch.read(None)
        return batch

    def ack(self, lease_id: int | Message, ids: Named = None) -> int:
        """Acknowledge messages of a lease, or all that it holds; return how many.

        Raises `LeaseLost` if the lease does not hold them; nothing changes then.

        :param lease_id: the id of the lease. A claimed message here means this message alone.
        :param ids: messages or their ids; None for all messages of the lease.

        >>> client.ack(batch.lease_id, [41, 42])
        2
        """
        return self.fetch_value(int, sql.ACK, *lease_and_ids(lease_id, ids))

    def finish(self, lease_id: int, id: int, result: Any = None) -> None:
        """Acknowledge one message of a lease and store a result, which `result` returns.

        The result is kept as long as the log keeps messages.

        :param lease_id: the id of the lease.
        :param id: the id of the message.
        :param result: the result, as a JSON value.

        >>> client.finish(message.lease_id, message.id, {"sum": 12})
        """
        check_numbers(lease_id=lease_id, id=id)
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
        """Refuse messages of a lease: they are retried, or become dead letters; return how many.

        :param lease_id: the id of the lease. A claimed message here means this message alone.
        :param ids: messages or their ids; None for all messages of the lease.
        :param delay: the delay before the retry; None for the queue's backoff.
        :param error: the reason, as text for people.
        :param details: the reason, as JSON for programs.

        >>> client.nack(message, delay="5m", error="the bank does not answer")
        1
        """
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
        """Release messages of a lease without counting the attempt; return how many.

        :param lease_id: the id of the lease. A claimed message here means this message alone.
        :param ids: messages or their ids; None for all messages of the lease.
        :param delay: how long the messages cannot be claimed.

        >>> client.release(message, delay="10s")
        1
        """
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
        """Make messages of a lease dead letters now, without a retry; return how many.

        :param lease_id: the id of the lease. A claimed message here means this message alone.
        :param ids: messages or their ids; None for all messages of the lease.
        :param error: the reason, as text for people.
        :param details: the reason, as JSON for programs.

        >>> client.bury(message, error="no such customer")
        1
        """
        return self.fetch_value(
            int, sql.BURY, *lease_and_ids(lease_id, ids), _text(error), self._optional(details)
        )

    def extend(self, lease_id: int, lease: Duration | None = None) -> datetime | None:
        """Extend a lease; return its new end, or None for a lease without an end.

        :param lease_id: the id of the lease.
        :param lease: the lease duration from now on; None for the queue's.

        >>> client.extend(batch.lease_id, "5m")
        """
        check_numbers(lease_id=lease_id)
        longer = span(lease, "lease")
        rows = self.fetch_rows(sql.EXTEND, lease_id, longer, factory=scalar_row, repeatable=True)
        until: datetime | None = rows[0]
        return until

    def seen(self, handler: str, message_id: int, *, size: int = 100) -> bool:
        """Return True if the handler has seen the message; else record the message.

        This lets a handler skip a redelivery. Call it in the transaction of the handler's work:
        a rollback then removes the record, too.

        :param handler: the name of the handler.
        :param message_id: the id of the message.
        :param size: how many messages are remembered for a handler.

        >>> client.seen("mailer", 41)
        False
        """
        check_texts(handler=handler)
        check_numbers(message_id=message_id, size=size)
        return self.fetch_value(bool, sql.SEEN, handler, message_id, size)

    def channel(self, queue: str) -> str:
        """Return the channel to LISTEN to for messages of a queue.

        :param queue: the name of the queue.

        >>> channel = client.channel("orders")
        """
        check_texts(queue=queue)
        return self.fetch_value(str, sql.CHANNEL, queue)

    def wait_begin(self, queue: str, waiter: str, timeout: Duration) -> timedelta:
        """Register a consumer as a listener before it sleeps; return how long it may sleep.

        Zero means: claim again first.

        :param queue: the name of the queue.
        :param waiter: a name that no other consumer uses.
        :param timeout: the longest sleep.

        >>> seconds = (client.wait_begin("orders", "worker-1", "30s")).total_seconds()
        """
        check_texts(queue=queue, waiter=waiter)
        rows = self.fetch_rows(
            sql.WAIT_BEGIN,
            queue,
            waiter,
            duration(timeout, "timeout"),
            factory=scalar_row,
            repeatable=True,
        )
        until: timedelta = rows[0]
        return until

    def wait_end(self, queue: str, waiter: str) -> bool:
        """Remove a listener that has woken up; return False if it was not registered.

        :param queue: the name of the queue.
        :param waiter: the name that was registered.

        >>> client.wait_end("orders", "worker-1")
        True
        """
        check_texts(queue=queue, waiter=waiter)
        return self.fetch_value(bool, sql.WAIT_END, queue, waiter)

    def stream_begin(
        self,
        queue: str,
        consumer: str,
        owner: str,
        timeout: Duration = timedelta(seconds=30),
        lease: Duration | None = None,
    ) -> int:
        """Take or renew the ownership of a stream; return its last finished batch (0: none).

        :param queue: the name of the queue.
        :param consumer: the name of the stream.
        :param owner: a name that no other process uses.
        :param timeout: after this time without renewal, another process can take the stream.
        :param lease: extend the lease of the current batch by this time.

        >>> client.stream_begin("orders", "archive", "process-7")
        0
        """
        check_texts(queue=queue, consumer=consumer, owner=owner)
        return self.fetch_value(
            int,
            sql.STREAM_BEGIN,
            queue,
            consumer,
            owner,
            duration(timeout, "timeout"),
            span(lease, "lease"),
        )


def _messages(cursor: Cursor[Any]) -> Callable[[Sequence[Any]], Message]:
    return lambda values: Message(*values)


def _text(text: str | None) -> str | None:
    """Replace NUL characters, which PostgreSQL cannot store."""
    check_texts(error=text)
    return None if text is None else text.replace("\0", "\ufffd")
