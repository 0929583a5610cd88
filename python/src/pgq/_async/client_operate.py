"""Operations on waiting messages and dead letters, and maintenance."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg

from pgq._async.client_base import AsyncStatements
from pgq._shared import sql
from pgq._shared.arguments import (
    Named,
    check_texts,
)
from pgq._shared.arguments import ids as ids_of
from pgq.durations import Duration, span
from pgq.errors import translated
from pgq.filters import Filter
from pgq.rows import DeadLetter

__all__ = ["AsyncOperateMethods"]


class AsyncOperateMethods(AsyncStatements):
    """Cancel, move and reschedule messages; replay and discard dead letters; maintenance."""

    async def purge(self, topic: str, filter: Filter = None, *, dry_run: bool = False) -> int:
        """Delete the waiting messages of a queue, or those that match a filter; return how many.

        Leased messages, dead letters, subscriptions and rights stay. `dry_run` only counts.
        """
        check_texts(topic=topic)
        return await self.fetch_value(int, sql.PURGE, topic, self._filter(filter), dry_run)

    async def cancel(
        self,
        topic: str,
        ids: Named = None,
        *,
        filter: Filter = None,
        dedup_key: str | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete waiting messages of a queue by id, filter or dedup key; return how many.

        Waiting messages are ready, scheduled, or wait for their turn in an ordering group. Leased
        messages stay. Several conditions must all hold. `dry_run` only counts.

        >>> await client.cancel("mails", dedup_key="welcome-17")
        1
        """
        check_texts(topic=topic, dedup_key=dedup_key)
        return await self.fetch_value(
            int, sql.CANCEL, topic, ids_of(ids), self._filter(filter), dedup_key, dry_run
        )

    async def move(
        self,
        topic: str,
        to_topic: str,
        filter: Filter = None,
        n: int | None = None,
        *,
        dry_run: bool = False,
    ) -> int:
        """Move waiting messages to another queue; return how many.

        The messages keep their ids and due times; their attempts count from zero again.

        :param filter: the messages to move; None for all.
        :param n: the most messages, the next to be delivered first; None for no limit.
        :param dry_run: only count.
        """
        check_texts(topic=topic, to_topic=to_topic)
        return await self.fetch_value(
            int, sql.MOVE, topic, to_topic, self._filter(filter), n, dry_run
        )

    async def reschedule(
        self,
        topic: str,
        ids: Named = None,
        *,
        filter: Filter = None,
        at: datetime | None = None,
        delay: Duration | None = None,
        dry_run: bool = False,
    ) -> int:
        """Change the delivery time of waiting messages; return how many.

        :param ids: messages or their ids; None for all.
        :param filter: the messages to reschedule; None for all.
        :param at: the new delivery time.
        :param delay: deliver after this delay from now. Without `at` and `delay`: now.
        :param dry_run: only count.
        """
        check_texts(topic=topic)
        return await self.fetch_value(
            int,
            sql.RESCHEDULE,
            topic,
            ids_of(ids),
            self._filter(filter),
            at,
            span(delay, "delay"),
            dry_run,
        )

    async def dead_letter(self, topic: str, message_id: int) -> DeadLetter | None:
        """Return the dead letter of a message; None if the message is not dead in this queue."""
        rows = await self.fetch_dicts(sql.DEAD_LETTER, topic, message_id)
        return rows[0] if rows else None

    async def replay(
        self,
        topic: str,
        filter: Filter = None,
        n: int | None = None,
        *,
        dry_run: bool = False,
        cause: Filter = None,
        to_topic: str | None = None,
        per_second: int | None = None,
        patch: Any = None,
    ) -> int:
        """Put dead letters back into their queue (redrive), the oldest first; return how many.

        :param filter: a filter on the message; None for all.
        :param n: the most dead letters; None for no limit.
        :param dry_run: only count.
        :param cause: a filter on how the message ended, with the fields reason, error, attempts,
            failed_at, holder and replay_count.
        :param to_topic: put the messages into this queue instead.
        :param per_second: the most messages that become due in a second.
        :param patch: a JSON merge patch that changes the payloads.

        >>> await client.replay("orders", cause=F.error.like("%not reachable%"), per_second=50)
        12
        """
        check_texts(topic=topic, to_topic=to_topic)
        return await self.fetch_value(
            int,
            sql.REPLAY,
            topic,
            self._filter(filter),
            n,
            dry_run,
            self._filter(cause),
            to_topic,
            per_second,
            self._optional(patch),
        )

    async def discard(
        self,
        topic: str,
        filter: Filter = None,
        n: int | None = None,
        *,
        dry_run: bool = False,
        cause: Filter = None,
    ) -> int:
        """Delete dead letters for good; return how many. `cause` is as in `replay`."""
        check_texts(topic=topic)
        return await self.fetch_value(
            int, sql.DISCARD, topic, self._filter(filter), n, dry_run, self._filter(cause)
        )

    async def maintain(self, until_done: bool = True) -> None:
        """Run maintenance: rotation, garbage collection and counts. Consumers call it, too.

        Queues work without maintenance, but the log grows. Maintenance works in slices of about a
        second, and commits each. With `until_done=False`, or inside a transaction, it does one.
        """
        try:
            async with self._session() as conn:
                await conn.execute(sql.MAINTAIN, [until_done])
        except psycopg.Error as error:
            raise translated(error) or error from error
