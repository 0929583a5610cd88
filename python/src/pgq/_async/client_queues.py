"""Queues and subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

from psycopg.rows import scalar_row

from pgq._async.client_base import AsyncStatements
from pgq._shared import sql
from pgq._shared.arguments import check_flags, check_numbers, check_texts, moment, names
from pgq.durations import Duration, span
from pgq.filters import Filter
from pgq.options import Dedup, Journal, Mode, OnDead, OnExpiry, QueuePolicy
from pgq.rows import Subscription

__all__ = ["AsyncQueueMethods"]


class AsyncQueueMethods(AsyncStatements):
    """Create, alter and drop queues; subscribe them to topics."""

    async def create_queue(
        self,
        queue: str,
        *,
        lane_keys: Sequence[str] | str | None = None,
        lease: Duration = timedelta(seconds=30),
        max_attempts: int = 3,
        backoff: Duration = timedelta(seconds=1),
        max_backoff: Duration = timedelta(minutes=5),
        retention: Duration = timedelta(days=1),
        mode: Mode = "queue",
        dedup_window: Duration = timedelta(minutes=5),
        on_expiry: OnExpiry = "dead_letter",
        set_size: int = 100,
        journal: Journal = "all",
        on_dead: OnDead = "release",
        suggestions: bool = False,
        max_leased: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        lane_max_leased: int | None = None,
        lane_rate: str | None = None,
        lane_burst: int | None = None,
        fair: bool = False,
        max_lease: Duration = timedelta(days=3600),
        dedup: Dedup = "keep",
    ) -> bool:
        """Create a queue that receives the topic of its name.

        :param queue: the name of the queue.
        :param lane_keys: the fields, at most four, whose values sort messages into lanes.
        :param lease: the default lease duration: how long a claim holds its messages.
        :param max_attempts: how often a message is delivered before it becomes a dead letter.
        :param backoff: the delay before the first retry; it doubles with every attempt.
        :param max_backoff: the longest delay before a retry.
        :param retention: how long the log keeps messages at least.
        :param mode: ``archive`` stores messages and delivers none.
        :param dedup_window: how long a dedup key is remembered.
        :param on_expiry: what happens to messages that expire undelivered.
        :param set_size: the maximum number of message ids in one row of ``pgq.ready``.
        :param journal: which events the audit log records.
        :param on_dead: ``block``: a dead letter holds its ordering group back.
        :param suggestions: whether the header ``route`` of a message can name this queue.
        :param max_leased: the maximum number of messages that are leased at a time.
        :param rate: the maximum rate of claims, such as ``100/min``, with a `burst`.
        :param lane_max_leased: as `max_leased`, for each lane; likewise `lane_rate`, `lane_burst`.
        :param fair: whether the lanes take turns.
        :param max_lease: how long a message can be held altogether, with all extensions.
        :param dedup: what happens to a waiting message when another one with its dedup key is
            published: ``keep`` it, ``replace`` it, or ``postpone`` it to the time of the new one.
        :return: False if the queue exists with the same policy.

        >>> await client.create_queue("orders", lease="2m", max_attempts=5, rate="100/min")
        True
        """
        policy = QueuePolicy(
            lane_keys=lane_keys,
            lease=lease,
            max_attempts=max_attempts,
            backoff=backoff,
            max_backoff=max_backoff,
            retention=retention,
            mode=mode,
            dedup_window=dedup_window,
            on_expiry=on_expiry,
            set_size=set_size,
            journal=journal,
            on_dead=on_dead,
            suggestions=suggestions,
            max_leased=max_leased,
            rate=rate,
            burst=burst,
            lane_max_leased=lane_max_leased,
            lane_rate=lane_rate,
            lane_burst=lane_burst,
            fair=fair,
            max_lease=max_lease,
            dedup=dedup,
        )
        return await self.fetch_value(bool, sql.CREATE_QUEUE, queue, *_values(queue, policy))

    async def alter_queue(self, queue: str, **policy: Unpack[QueuePolicy]) -> None:
        """Change the given parts of a queue's policy; `create_queue` describes them.

        ``lane_keys=[]`` removes the lanes. 0 or an empty rate removes a limit.

        :param queue: the name of the queue.
        :param policy: the options to change.

        >>> await client.alter_queue("orders", max_attempts=10, rate="")
        """
        await self.fetch_rows(sql.ALTER_QUEUE, queue, *_values(queue, policy))

    async def drop_queue(self, queue: str, *, force: bool = False) -> bool:
        """Drop a queue. A queue that still holds messages is dropped only with `force`.

        :param queue: the name of the queue.
        :param force: also drop the messages that the queue holds.

        >>> await client.drop_queue("orders", force=True)
        True
        """
        check_texts(queue=queue)
        check_flags(force=force)
        return await self.fetch_value(bool, sql.DROP_QUEUE, queue, force)

    async def pause(self, queue: str) -> bool:
        """Stop delivery from a queue; False if it was paused already.

        :param queue: the name of the queue.

        >>> await client.pause("orders")
        True
        """
        check_texts(queue=queue)
        return await self.fetch_value(bool, sql.PAUSE, queue)

    async def resume(self, queue: str) -> bool:
        """Resume delivery from a queue; False if it was not paused.

        :param queue: the name of the queue.

        >>> await client.resume("orders")
        True
        """
        check_texts(queue=queue)
        return await self.fetch_value(bool, sql.RESUME, queue)

    async def queue_names(self) -> list[str]:
        """Return the names of the queues that the role may consume.

        >>> await client.queue_names()
        ['audit', 'orders']
        """
        return await self.fetch_rows(sql.QUEUE_NAMES, factory=scalar_row, repeatable=True)

    async def queue_policy(self, queue: str) -> dict[str, Any] | None:
        """Return the policy of a queue, or None; needs the right to read ``pgq.queue``.

        :param queue: the name of the queue.

        >>> (await client.queue_policy("orders"))["max_attempts"]
        3
        """
        check_texts(queue=queue)
        rows = await self.fetch_dicts(sql.QUEUE_POLICY, queue)
        return rows[0] if rows else None

    async def subscribe(
        self,
        queue: str,
        pattern: str,
        filter: Filter = None,
        *,
        since: datetime | str | None = None,
        since_id: int | None = None,
    ) -> bool:
        """Subscribe a queue to a topic pattern; False if the subscription exists.

        :param queue: the name of the queue, which is created if it is missing.
        :param pattern: words separated by dots: ``*`` is one word, ``#`` any number of words.
        :param filter: the messages to receive; None for all.
        :param since: also receive the messages that the log has from this time on.
        :param since_id: also receive the messages that the log has from this id on.

        >>> await client.subscribe("billing", "orders.*", F.type == "paid")
        True
        """
        check_texts(queue=queue, pattern=pattern)
        check_numbers(since_id=since_id)
        since = moment(since, "since")
        wanted = self._filter(filter)
        return await self.fetch_value(bool, sql.SUBSCRIBE, queue, pattern, wanted, since, since_id)

    async def unsubscribe(self, queue: str, pattern: str) -> bool:
        """End a subscription; False if there was none.

        :param queue: the name of the queue.
        :param pattern: the topic pattern of the subscription.

        >>> await client.unsubscribe("billing", "orders.*")
        True
        """
        check_texts(queue=queue, pattern=pattern)
        return await self.fetch_value(bool, sql.UNSUBSCRIBE, queue, pattern)

    async def unsubscribe_all(self, queue: str) -> int:
        """End all subscriptions of a queue; return how many there were.

        :param queue: the name of the queue.

        >>> await client.unsubscribe_all("billing")
        2
        """
        check_texts(queue=queue)
        return await self.fetch_value(int, sql.UNSUBSCRIBE_ALL, queue)

    async def alter_subscription(self, queue: str, pattern: str, filter: Filter) -> None:
        """Change the filter of a subscription; None removes it.

        :param queue: the name of the queue.
        :param pattern: the topic pattern of the subscription.
        :param filter: the new filter; None removes it.

        >>> await client.alter_subscription("billing", "orders.*", F.amount > 100)
        """
        check_texts(queue=queue, pattern=pattern)
        await self.fetch_rows(sql.ALTER_SUBSCRIPTION, queue, pattern, self._filter(filter))

    async def subscriptions(self, queue: str | None = None) -> list[Subscription]:
        """Return the subscriptions of one queue, or of all queues.

        :param queue: the name of a queue; None for all queues.

        >>> [row.pattern for row in await client.subscriptions("billing")]
        ['orders.*']
        """
        check_texts(queue=queue)
        return await self.fetch_records(Subscription, sql.SUBSCRIPTIONS, queue, queue)


_TEXTS = ("mode", "on_expiry", "journal", "on_dead", "rate", "lane_rate", "dedup")
_NUMBERS = ("max_attempts", "set_size", "max_leased", "burst", "lane_max_leased", "lane_burst")
_DURATIONS = ("lease", "backoff", "max_backoff", "retention", "dedup_window", "max_lease")


def _values(queue: str, policy: QueuePolicy) -> list[Any]:
    """Check the options of a queue; return them in the order of the SQL function's parameters."""
    given = dict(policy)
    if unknown := given.keys() - QueuePolicy.__annotations__.keys():
        raise TypeError(f"a queue has no option {', '.join(sorted(unknown))}")
    check_texts(queue=queue, **{name: given.get(name) for name in _TEXTS})
    check_numbers(**{name: given.get(name) for name in _NUMBERS})
    check_flags(suggestions=given.get("suggestions"), fair=given.get("fair"))
    given["lane_keys"] = names(policy.get("lane_keys"), "lane_keys")
    for name in _DURATIONS:
        given[name] = span(given.get(name), name)  # type: ignore[arg-type]
    return [given.get(name) for name in QueuePolicy.__annotations__]
