"""Operations on waiting messages and dead letters, and maintenance."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg

from pgq._async.client_base import AsyncStatements
from pgq._shared import sql
from pgq._shared.arguments import (
    Named,
    check_flags,
    check_numbers,
    check_texts,
    moment,
)
from pgq._shared.arguments import ids as ids_of
from pgq.durations import Duration, span
from pgq.errors import translated
from pgq.filters import Filter
from pgq.rows import DeadLetter

__all__ = ["AsyncOperateMethods"]


class AsyncOperateMethods(AsyncStatements):
    """Cancel, move and reschedule messages; replay and discard dead letters; maintenance."""

    async def purge(self, queue: str, filter: Filter = None, *, dry_run: bool = False) -> int:
        """Delete the waiting messages of a queue, or those that match a filter; return how many.

        Leased messages, dead letters, subscriptions and rights stay. `dry_run` only counts.

        :param queue: the name of the queue.
        :param filter: the messages to delete; None for all.
        :param dry_run: only count.

        >>> await client.purge("orders", F.type == "test", dry_run=True)
        40
        """
        check_texts(queue=queue)
        check_flags(dry_run=dry_run)
        return await self.fetch_value(int, sql.PURGE, queue, self._filter(filter), dry_run)

    async def cancel(
        self,
        queue: str,
        ids: Named = None,
        *,
        filter: Filter = None,
        dedup_key: str | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete waiting messages of a queue by id, filter or dedup key; return how many.

        Waiting messages are ready, scheduled, or wait for their turn in an ordering group. Leased
        messages stay. Several conditions must all hold. `dry_run` only counts.

        :param queue: the name of the queue.
        :param ids: messages or their ids.
        :param filter: the messages to delete.
        :param dedup_key: the dedup key of the message.
        :param dry_run: only count.

        >>> await client.cancel("mails", dedup_key="welcome-17")
        1
        """
        check_texts(queue=queue, dedup_key=dedup_key)
        check_flags(dry_run=dry_run)
        return await self.fetch_value(
            int, sql.CANCEL, queue, ids_of(ids), self._filter(filter), dedup_key, dry_run
        )

    async def move(
        self,
        queue: str,
        to_queue: str,
        filter: Filter = None,
        n: int | None = None,
        *,
        dry_run: bool = False,
    ) -> int:
        """Move waiting messages to another queue; return how many.

        The messages keep their ids and due times; their attempts count from zero again.

        :param queue: the name of the queue.
        :param to_queue: the name of the other queue.
        :param filter: the messages to move; None for all.
        :param n: the maximum number of messages, in delivery order; None for no limit.
        :param dry_run: only count.

        >>> await client.move("orders", "slow-orders", F.amount > 1000)
        7
        """
        check_texts(queue=queue, to_queue=to_queue)
        check_numbers(n=n)
        check_flags(dry_run=dry_run)
        return await self.fetch_value(
            int, sql.MOVE, queue, to_queue, self._filter(filter), n, dry_run
        )

    async def reschedule(
        self,
        queue: str,
        ids: Named = None,
        *,
        filter: Filter = None,
        at: datetime | str | None = None,
        delay: Duration | None = None,
        dry_run: bool = False,
    ) -> int:
        """Change the delivery time of waiting messages; return how many.

        :param queue: the name of the queue.
        :param ids: messages or their ids; None for all.
        :param filter: the messages to reschedule; None for all.
        :param at: the new delivery time.
        :param delay: deliver after this delay from now. Without `at` and `delay`: now.
        :param dry_run: only count.

        >>> await client.reschedule("mails", filter=F.type == "news", delay="2h")
        130
        """
        check_texts(queue=queue)
        check_flags(dry_run=dry_run)
        return await self.fetch_value(
            int,
            sql.RESCHEDULE,
            queue,
            ids_of(ids),
            self._filter(filter),
            moment(at, "at"),
            span(delay, "delay"),
            dry_run,
        )

    async def dead_letter(self, queue: str, message_id: int) -> DeadLetter | None:
        """Return the dead letter of a message; None if the message is not dead in this queue.

        :param queue: the name of the queue.
        :param message_id: the id of the message.

        >>> (await client.dead_letter("orders", 41)).error
        'the bank does not answer'
        """
        check_texts(queue=queue)
        check_numbers(message_id=message_id)
        rows = await self.fetch_records(DeadLetter, sql.DEAD_LETTER, queue, message_id)
        return rows[0] if rows else None

    async def replay(
        self,
        queue: str,
        filter: Filter = None,
        n: int | None = None,
        *,
        dry_run: bool = False,
        cause: Filter = None,
        to_queue: str | None = None,
        per_second: int | None = None,
        patch: Any = None,
    ) -> int:
        """Return dead letters to their queue (redrive), the oldest first; return how many.

        :param queue: the name of the queue.
        :param filter: a filter on the message; None for all.
        :param n: the maximum number of dead letters; None for no limit.
        :param dry_run: only count.
        :param cause: a filter on how the message ended, with the fields reason, error, attempts,
            failed_at, holder and replay_count.
        :param to_queue: put the messages into this queue instead.
        :param per_second: the maximum number of messages that become due per second.
        :param patch: a JSON merge patch that changes the payloads.

        >>> await client.replay("orders", cause=F.error.like("%not reachable%"), per_second=50)
        12
        """
        check_texts(queue=queue, to_queue=to_queue)
        check_numbers(n=n, per_second=per_second)
        check_flags(dry_run=dry_run)
        return await self.fetch_value(
            int,
            sql.REPLAY,
            queue,
            self._filter(filter),
            n,
            dry_run,
            self._filter(cause),
            to_queue,
            per_second,
            self._optional(patch),
        )

    async def discard(
        self,
        queue: str,
        filter: Filter = None,
        n: int | None = None,
        *,
        dry_run: bool = False,
        cause: Filter = None,
    ) -> int:
        """Delete dead letters for good; return how many. `cause` is as in `replay`.

        :param queue: the name of the queue.
        :param filter: a filter on the message; None for all.
        :param n: the maximum number of dead letters; None for no limit.
        :param dry_run: only count.
        :param cause: a filter on how the message ended, as in `replay`.

        >>> await client.discard("orders", cause={"reason": "expired"})
        12
        """
        check_texts(queue=queue)
        check_numbers(n=n)
        check_flags(dry_run=dry_run)
        return await self.fetch_value(
            int, sql.DISCARD, queue, self._filter(filter), n, dry_run, self._filter(cause)
        )

    async def maintain(self, until_done: bool = True) -> None:
        """Run maintenance: rotation, garbage collection and counts. Consumers call it, too.

        Queues work without maintenance, but the log grows. Maintenance works in slices of about a
        second, and commits each. With `until_done=False`, or inside a transaction, it does one.

        :param until_done: continue until nothing is left to do; else do one step.

        >>> await client.maintain()
        """
        check_flags(until_done=until_done)
        try:
            async with self._session() as conn:
                await conn.execute(sql.MAINTAIN, [until_done])
        except psycopg.Error as error:
            raise translated(error) or error from error
