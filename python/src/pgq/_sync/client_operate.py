# Written by unasync.py from _async/client_operate.py: change that one.

"""Operations on waiting messages and dead letters, and maintenance."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg

from pgq._shared import sql
from pgq._shared.arguments import (
    Named,
    check_texts,
)
from pgq._shared.arguments import ids as ids_of
from pgq._sync.client_base import Statements
from pgq.durations import Duration, span
from pgq.errors import translated
from pgq.filters import Filter
from pgq.rows import DeadLetter

__all__ = ["OperateMethods"]


class OperateMethods(Statements):
    """Cancel, move and reschedule messages; replay and discard dead letters; maintenance."""

    def purge(self, topic: str, filter: Filter = None, *, dry_run: bool = False) -> int:
        """Delete the messages that wait in a queue, or those that match; return how many.

        Leased messages, dead letters, subscriptions and rights stay. With `dry_run` it only counts.
        """
        check_texts(topic=topic)
        return self.fetch_value(int, sql.PURGE, topic, self._filter(filter), dry_run)

    def cancel(
        self,
        topic: str,
        ids: Named = None,
        *,
        filter: Filter = None,
        dedup_key: str | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete waiting messages of a queue by id, filter or dedup key; return how many.

        They may be ready, scheduled, or wait for their turn in an ordering group. Leased messages
        stay. With `dry_run` it only counts.
        """
        check_texts(topic=topic, dedup_key=dedup_key)
        return self.fetch_value(
            int, sql.CANCEL, topic, ids_of(ids), self._filter(filter), dedup_key, dry_run
        )

    def move(
        self,
        topic: str,
        to_topic: str,
        filter: Filter = None,
        n: int | None = None,
        *,
        dry_run: bool = False,
    ) -> int:
        """Move waiting messages to another queue; return how many.

        They keep their ids; their attempts begin again. With `dry_run` it only counts.
        """
        check_texts(topic=topic, to_topic=to_topic)
        return self.fetch_value(int, sql.MOVE, topic, to_topic, self._filter(filter), n, dry_run)

    def reschedule(
        self,
        topic: str,
        ids: Named = None,
        *,
        filter: Filter = None,
        at: datetime | None = None,
        delay: Duration | None = None,
        dry_run: bool = False,
    ) -> int:
        """Change when waiting messages are delivered; return how many.

        At a time, or after a delay from now; without both, now.
        """
        check_texts(topic=topic)
        return self.fetch_value(
            int,
            sql.RESCHEDULE,
            topic,
            ids_of(ids),
            self._filter(filter),
            at,
            span(delay, "delay"),
            dry_run,
        )

    def dead_letter(self, topic: str, message_id: int) -> DeadLetter | None:
        """Return the dead letter that a message of a queue has become; None if it has not."""
        rows = self.fetch_dicts(sql.DEAD_LETTER, topic, message_id)
        return rows[0] if rows else None

    def replay(
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

        `filter` selects by the message; `cause` by how it ended, with the names reason, error,
        attempts, failed_at, holder and replay_count. `to_topic` names another queue, `per_second`
        limits how many become due in a second, and `patch`, a JSON merge patch, changes payloads.
        """
        check_texts(topic=topic, to_topic=to_topic)
        return self.fetch_value(
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

    def discard(
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
        return self.fetch_value(
            int, sql.DISCARD, topic, self._filter(filter), n, dry_run, self._filter(cause)
        )

    def maintain(self, until_done: bool = True) -> None:
        """Run maintenance. Without it queues work, and the log grows.

        It works in slices of about a second, each committed. With `until_done=False`, or inside a
        transaction, it does one slice.
        """
        try:
            with self._session() as conn:
                conn.execute(sql.MAINTAIN, [until_done])
        except psycopg.Error as error:
            raise translated(error) or error from error
