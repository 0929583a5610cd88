"""Publishing, at once and on a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any

import psycopg
from psycopg.rows import scalar_row

from pgq._async.client_base import AsyncStatements
from pgq._shared import sql, trace
from pgq._shared.arguments import (
    check_headers,
    check_numbers,
    check_texts,
    headers_of_each,
    items,
)
from pgq._shared.jsonb import json_list, jsonb
from pgq.durations import Duration, duration, span
from pgq.errors import translated
from pgq.message import Draft, Message
from pgq.options import Missed
from pgq.rows import Schedule

__all__ = ["AsyncPublishMethods"]


class AsyncPublishMethods(AsyncStatements):
    """Publish messages, replies and schedules."""

    async def publish(
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
        serializer: str | None = None,
    ) -> int:
        """Publish one message and return its id.

        :param topic: the topic; without a queue that receives it, `NoQueue` is raised.
        :param payload: what JSON can hold; a dataclass or a model of pydantic is checked first.
        :param headers: fields that filters test.
        :param priority: higher ones are delivered first.
        :param delay: how long from now the message is not delivered.
        :param expires_in: after this time the message is not delivered any more.
        :param recipient: for filters made by `addressed_to`; likewise `sender`.
        :param reply_to: the queue that awaits an answer; `correlation_id` names the question.
        :param group_key: messages with the same key are delivered one after the other.
        :param dedup_key: a second message with the same key is dropped, within a queue's window.
        :param serializer: the name of the serializer that writes the payload.

        >>> await client.publish("orders", {"amount": 12}, headers={"type": "refund"}, delay="5m")
        1
        """
        check_texts(topic=topic, sender=sender, recipient=recipient, reply_to=reply_to)
        check_texts(correlation_id=correlation_id, group_key=group_key, dedup_key=dedup_key)
        check_numbers(priority=priority)
        check_headers(headers)
        payload, headers = self._payloads.prepared(topic, payload, headers, serializer)
        return await self.fetch_value(
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
        )

    async def publish_batch(
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
        serializer: str | None = None,
    ) -> list[int]:
        """Publish many messages of one topic, all or none; return their ids in this order.

        `headers` are those of each message, or one dict for all.
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
        return await self.fetch_rows(
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
            factory=scalar_row,
        )

    async def publish_many(self, drafts: Iterable[Draft], *, chunk: int = 10_000) -> int:
        """Publish any number of messages by COPY, all or none; return how many.

        The database routes them `chunk` at a time. COPY needs the right to insert into
        ``pgq.message``.
        """
        source = iter(drafts)
        common = trace.inject(None)
        count = 0
        try:
            async with self._unit() as conn:
                now = await self._now(conn)
                while part := list(islice(source, chunk)):
                    async with conn.cursor() as cursor, cursor.copy(sql.COPY) as copy:
                        for draft in map(self._payloads.prepared_draft, part):
                            await copy.write_row(self._copied(draft, common, now))
                    count += len(part)
        except psycopg.Error as error:
            raise translated(error) or error from error
        return count

    async def reply(
        self,
        message: Message | int,
        payload: Any,
        *,
        headers: dict[str, Any] | None = None,
        sender: str | None = None,
    ) -> int:
        """Answer a message where its sender awaits it; return the id of the answer."""
        id = message if isinstance(message, int) else message.id
        payload, headers = self._payloads.prepared(None, payload, headers)
        return await self.fetch_value(
            int, sql.REPLY, id, self._jsonb(payload), self._headers(headers), sender
        )

    def _copied(self, draft: Draft, common: dict[str, Any], now: datetime) -> tuple[Any, ...]:
        """Return the row of a message for COPY."""
        return (
            draft.topic,
            self._jsonb(draft.payload),
            self._jsonb(common | draft.headers if draft.headers else common),
            draft.priority,
            None if draft.delay is None else now + duration(draft.delay),
            None if draft.expires_in is None else now + duration(draft.expires_in),
            draft.sender,
            draft.recipient,
            draft.reply_to,
            draft.correlation_id,
            draft.group_key,
            draft.dedup_key,
        )

    async def schedule(
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
        """Publish a message at regular times, by `cron` or `every`; return the first of them.

        Whoever claims or maintains runs what is due, once. The same name again changes the
        schedule; the same times go on. None if the schedule is paused. `missed` says what happens
        to runs that nobody was there for: ``skip``, ``one`` for all of them, or ``all``.
        """
        check_texts(name=name, topic=topic, cron=cron, time_zone=time_zone, missed=missed)
        check_numbers(priority=priority)
        check_headers(headers)
        payload, headers = self._payloads.prepared(topic, payload, headers, serializer)
        rows = await self.fetch_rows(
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

    async def unschedule(self, name: str) -> bool:
        """End a schedule; False if there is none of that name."""
        return await self.fetch_value(bool, sql.UNSCHEDULE, name)

    async def pause_schedule(self, name: str) -> bool:
        """Stop a schedule; False if it was paused already."""
        return await self.fetch_value(bool, sql.PAUSE_SCHEDULE, name)

    async def resume_schedule(self, name: str) -> bool:
        """Go on with a schedule; False if it was not paused."""
        return await self.fetch_value(bool, sql.RESUME_SCHEDULE, name)

    async def schedules(self) -> list[Schedule]:
        """Return the schedules, with their last and their next run."""
        return await self.fetch_dicts(sql.SCHEDULES)
