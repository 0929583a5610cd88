# Written by unasync.py from _async/client_publish.py: change that one.

"""Publishing now and on a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any

import psycopg
from psycopg.rows import scalar_row

from pgq._shared import sql, trace
from pgq._shared.arguments import (
    aware,
    check_headers,
    check_numbers,
    check_texts,
    headers_of_each,
    items,
)
from pgq._shared.jsonb import json_list, jsonb
from pgq._sync.client_base import Statements
from pgq.durations import Duration, duration, span
from pgq.errors import translated
from pgq.message import Draft, Message
from pgq.options import Missed
from pgq.rows import Schedule

__all__ = ["PublishMethods"]


class PublishMethods(Statements):
    """Publish messages, replies and schedules."""

    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        headers: dict[str, Any] | None = None,
        priority: int = 0,
        delay: Duration | None = None,
        expires_in: Duration | None = None,
        sender: str | None = None,
        recipient: str | None = None,
        reply_to: str | None = None,
        correlation_id: str | None = None,
        group_key: str | None = None,
        dedup_key: str | None = None,
        deliver_at: datetime | str | None = None,
        serializer: str | None = None,
    ) -> int:
        """Publish one message and return its id.

        :param topic: the topic. `NoQueue` is raised if no queue receives it.
        :param payload: a JSON value; a dataclass or a model of pydantic is checked first.
        :param headers: scalar values that filters and lane keys read.
        :param priority: from -1000 to 1000; higher numbers are delivered first.
        :param delay: deliver the message after this time, not before.
        :param expires_in: after this time the message is not delivered any more.
        :param sender: a name that filters can test.
        :param recipient: a name that filters can test; see ``pgq.addressed_to``.
        :param reply_to: the topic that `reply` publishes to.
        :param correlation_id: the id of the request, which the reply also has.
        :param group_key: the ordering group: its messages are delivered one after the other.
        :param dedup_key: a queue gets one message with this key within its dedup window. A queue
            with `dedup` other than ``keep`` replaces or postpones the waiting message.
        :param deliver_at: deliver the message at this time, instead of after a delay. It needs a
            time zone.
        :param serializer: the name of the serializer that encodes the payload.

        >>> client.publish("orders", {"amount": 12}, headers={"type": "refund"}, delay="5m")
        1
        """
        check_texts(topic=topic, sender=sender, recipient=recipient, reply_to=reply_to)
        check_texts(correlation_id=correlation_id, group_key=group_key, dedup_key=dedup_key)
        check_numbers(priority=priority)
        check_headers(headers)
        payload, headers = self._payloads.prepared(topic, payload, headers, serializer)
        return self.fetch_value(
            int,
            sql.PUBLISH,
            topic,
            self._jsonb(payload),
            self._headers(headers),
            priority,
            span(delay, "delay"),
            span(expires_in, "expires_in"),
            sender,
            recipient,
            reply_to,
            correlation_id,
            group_key,
            dedup_key,
            aware(deliver_at, "deliver_at"),
        )

    def publish_batch(
        self,
        topic: str,
        payloads: Iterable[Any],
        *,
        headers: Iterable[dict[str, Any] | None] | dict[str, Any] | None = None,
        priority: int = 0,
        delay: Duration | None = None,
        expires_in: Duration | None = None,
        sender: str | None = None,
        recipient: str | None = None,
        reply_to: str | None = None,
        correlation_id: str | None = None,
        group_key: str | None = None,
        dedup_keys: Iterable[str | None] | None = None,
        deliver_at: datetime | str | None = None,
        serializer: str | None = None,
    ) -> list[int]:
        """Publish many messages of one topic, all or none; return their ids in the same order.

        :param topic: the topic of all messages.
        :param payloads: one payload for each message.
        :param headers: one dict for each message, or one dict for all.
        :param dedup_keys: one dedup key, or None, for each message.

        `priority`, `delay`, `deliver_at`, `expires_in`, `sender`, `recipient`, `reply_to`,
        `correlation_id`, `group_key` and `serializer` are those of `publish`, and apply to all
        messages.

        >>> client.publish_batch("orders", [{"amount": 12}, {"amount": 7}])
        [1, 2]
        """
        check_texts(topic=topic, sender=sender, recipient=recipient, reply_to=reply_to)
        check_texts(correlation_id=correlation_id, group_key=group_key)
        check_numbers(priority=priority)
        bodies = items(payloads, "payloads")
        if not bodies:
            return []
        heads = headers_of_each(headers, len(bodies))
        if self._payloads.may_change(bodies, serializer):
            pairs = [
                self._payloads.prepared(topic, body, head, serializer)
                for body, head in zip(bodies, heads, strict=True)
            ]
            bodies = [body for body, _ in pairs]
            heads = [head for _, head in pairs]
        common = trace.inject(None)
        written: list[dict[str, Any]] | None = None
        if common or any(heads):
            written = [common | (head or {}) for head in heads]
        keys = None if dedup_keys is None else items(dedup_keys, "dedup_keys")
        return self.fetch_rows(
            sql.PUBLISH_BATCH,
            topic,
            json_list(bodies, self._context),
            None if written is None else json_list(written, self._context),
            priority,
            span(delay, "delay"),
            span(expires_in, "expires_in"),
            sender,
            recipient,
            reply_to,
            correlation_id,
            group_key,
            keys,
            aware(deliver_at, "deliver_at"),
            factory=scalar_row,
        )

    def publish_many(self, drafts: Iterable[Draft], *, chunk: int = 10_000) -> int:
        """Publish any number of messages by COPY, all or none; return how many.

        COPY needs the right to insert into ``pgq.message``.

        :param drafts: the messages.
        :param chunk: how many messages one COPY sends.

        >>> client.publish_many(Draft(topic="orders", payload=order) for order in orders)
        2500
        """
        check_numbers(chunk=chunk)
        if not isinstance(drafts, Iterable):
            raise TypeError(f"publish_many takes several Drafts, not {drafts!r}")
        source = iter(drafts)
        common = trace.inject(None)
        count = 0
        try:
            with self._unit() as conn:
                now = self._now(conn)
                while part := list(islice(source, chunk)):
                    with conn.cursor() as cursor, cursor.copy(sql.COPY) as copy:
                        for draft in map(self._payloads.prepared_draft, part):
                            copy.write_row(self._copied(draft, common, now))
                    count += len(part)
        except psycopg.Error as error:
            raise translated(error) or error from error
        return count

    def reply(
        self,
        message: Message | int,
        payload: Any,
        *,
        headers: dict[str, Any] | None = None,
        sender: str | None = None,
    ) -> int:
        """Publish a reply to the `reply_to` topic of a message; return the id of the reply.

        :param message: the request, or its id.
        :param payload: the payload of the reply.
        :param headers: the headers of the reply.
        :param sender: who replies.

        >>> client.reply(message, {"price": 70})
        43
        """
        id = message if isinstance(message, int) else getattr(message, "id", message)
        check_numbers(message=id)
        check_texts(sender=sender)
        check_headers(headers)
        payload, headers = self._payloads.prepared(None, payload, headers)
        return self.fetch_value(
            int, sql.REPLY, id, self._jsonb(payload), self._headers(headers), sender
        )

    def _copied(self, draft: Draft, common: dict[str, Any], now: datetime) -> tuple[Any, ...]:
        """Return the row of a message for COPY."""
        return (
            draft.topic,
            self._jsonb(draft.payload),
            self._jsonb(common | draft.headers if draft.headers else common),
            draft.priority,
            draft.deliver_at if draft.delay is None else now + duration(draft.delay),
            None if draft.expires_in is None else now + duration(draft.expires_in),
            draft.sender,
            draft.recipient,
            draft.reply_to,
            draft.correlation_id,
            draft.group_key,
            draft.dedup_key,
        )

    def schedule(
        self,
        name: str,
        topic: str,
        payload: Any,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        time_zone: str = "UTC",
        missed: Missed = "one",
        headers: dict[str, Any] | None = None,
        priority: int = 0,
        expires_in: Duration | None = None,
        serializer: str | None = None,
    ) -> datetime | None:
        """Publish a message at regular times; return the next run, or None if it is paused.

        Consumers that claim, and `maintain`, publish the due messages, each once. A second call
        with the same name changes the schedule.

        :param name: the name of the schedule.
        :param topic: the topic to publish to.
        :param payload: the payload of the message; `headers`, `priority`, `expires_in` and
            `serializer` are those of `publish`.
        :param cron: a cron expression (minute hour day month weekday), or ``@daily`` and the like.
        :param every: an interval, instead of `cron`.
        :param time_zone: the time zone of `cron`.
        :param missed: what happens to missed runs: ``skip`` them, publish ``one`` message for all
            of them, or ``all``.

        >>> client.schedule("nightly", "reports", {"kind": "daily"}, cron="0 3 * * *")
        """
        check_texts(name=name, topic=topic, cron=cron, time_zone=time_zone, missed=missed)
        check_numbers(priority=priority)
        check_headers(headers)
        payload, headers = self._payloads.prepared(topic, payload, headers, serializer)
        rows = self.fetch_rows(
            sql.SCHEDULE,
            name,
            topic,
            self._jsonb(payload),
            cron,
            span(every, "every"),
            time_zone,
            missed,
            jsonb(headers or {}, self._context),
            priority,
            span(expires_in, "expires_in"),
            factory=scalar_row,
        )
        next_run: datetime | None = rows[0]
        return next_run

    def unschedule(self, name: str) -> bool:
        """End a schedule; False if there is none of that name.

        :param name: the name of the schedule.

        >>> client.unschedule("nightly-report")
        True
        """
        check_texts(name=name)
        return self.fetch_value(bool, sql.UNSCHEDULE, name)

    def pause_schedule(self, name: str) -> bool:
        """Pause a schedule; False if it was paused already.

        :param name: the name of the schedule.

        >>> client.pause_schedule("nightly-report")
        True
        """
        check_texts(name=name)
        return self.fetch_value(bool, sql.PAUSE_SCHEDULE, name)

    def resume_schedule(self, name: str) -> bool:
        """Resume a schedule; False if it was not paused.

        :param name: the name of the schedule.

        >>> client.resume_schedule("nightly-report")
        True
        """
        check_texts(name=name)
        return self.fetch_value(bool, sql.RESUME_SCHEDULE, name)

    def schedules(self) -> list[Schedule]:
        """Return the schedules, with their last and next runs.

        >>> [(row.name, row.next_at) for row in client.schedules()]
        """
        return self.fetch_records(Schedule, sql.SCHEDULES)
