"""Queues in memory, for tests: the methods of a client without a server.

The client implements topics, filters, priorities, delays, leases, retries, dead letters, ordering
groups and dedup keys for one process. It is not fast, and its queues end with the process.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, LiteralString, Self

from pgq import matching
from pgq._shared import sql
from pgq._shared.arguments import Named, headers_of_each, how_many, items, lease_and_ids, moment
from pgq._shared.arguments import ids as ids_of
from pgq._sync.batch import Batch
from pgq._sync.client import Client
from pgq._sync.client_pooled import PooledClient
from pgq._sync.transport import Transport
from pgq.durations import Duration, duration, span
from pgq.encoding import dumps
from pgq.errors import InvalidFilter, LeaseLost, NoQueue, QueueNotFound, refused
from pgq.filters import Filter, document
from pgq.filters.local import world
from pgq.message import Draft, Message
from pgq.payloads.serializers import Payloads
from pgq.rows import HistoryEvent, LogMessage, QueueStats, Subscription
from pgq.transports.breaker import CircuitBreaker
from pgq.transports.config import TransportConfig

__all__ = ["MemoryClient", "MemoryTransport"]


@dataclass
class _Entry:
    """A message in a queue."""

    message: Message
    due_at: datetime
    dedup_key: str | None = None
    attempts: int = 0
    lease: int = 0
    lease_until: datetime | None = None
    error: str | None = None


class _Binding:
    """A pattern and a filter; `is_own` for the binding to the topic of the queue's name."""

    def __init__(self, pattern: str, filter: Filter = None, *, is_own: bool = False) -> None:
        try:
            self._words = matching.topic_words(pattern)
        except InvalidFilter as error:
            raise refused("22023", f'"{pattern}": {error}') from None
        self.pattern = pattern
        self.is_own = is_own
        self.filter = filter

    @property
    def filter(self) -> dict[str, Any] | None:
        return self._filter

    @filter.setter
    def filter(self, filter: Filter) -> None:
        self._filter = document(filter) or None
        self._test = _test(filter)

    def receives(self, topic: str) -> bool:
        return matching.topic_matches(self._words, topic)

    def takes(self, message: Message, now: datetime) -> bool:
        return self.receives(message.topic) and (
            self._test is None or self._test(world(message, 0, now))
        )


@dataclass
class _Queue:
    lease: timedelta = timedelta(seconds=30)
    max_attempts: int = 3
    backoff: timedelta = timedelta(seconds=1)
    max_backoff: timedelta = timedelta(minutes=5)
    mode: str = "queue"
    dedup: str = "keep"
    dedup_window: timedelta = timedelta(minutes=5)
    bindings: list[_Binding] = field(default_factory=list)
    # (topic, dedup key) -> the id of the message, and how long the key is remembered.
    keys: dict[tuple[str, str], tuple[int, datetime]] = field(default_factory=dict)
    paused: bool = False
    live: dict[int, _Entry] = field(default_factory=dict)
    dead: dict[int, _Entry] = field(default_factory=dict)


class MemoryClient(PooledClient):
    """The methods of a client, on queues in memory.

    The client does not notify: consumers poll every 10 ms, whatever their options.

    :param on_demand: publishing to a topic that no queue receives creates its queue.
    :param clock: a function that returns the time, so that a test can set the time.

    >>> client = MemoryClient()
    >>> client.create_queue("orders")
    True
    """

    poll_interval = timedelta(milliseconds=10)

    def __init__(
        self,
        *,
        on_demand: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        types: Mapping[str, Any] | None = None,
        serializer: str | None = None,
    ) -> None:
        self._payloads = Payloads(types or {}, serializer)
        self.conninfo = "memory:"
        self.breaker = CircuitBreaker()
        self._on_demand = on_demand
        self._clock = clock
        self._open = True
        self._queues: dict[str, _Queue] = {}
        self._ids = count(1)
        self._leases = count(1)
        self._mutex = threading.RLock()
        self._log: dict[int, Message] = {}
        self._events: dict[int, list[HistoryEvent]] = {}
        self._seen: dict[str, dict[int, None]] = {}
        self._reply_queue = None
        self._reply_lock = threading.Lock()

    def open(self, *, wait: bool = True) -> Self:
        """Open the client."""
        self._open = True
        return self

    def close(self) -> None:
        """Close the client; its queues keep their messages."""
        self._open = False

    def connected(self) -> bool:
        """Whether the client is open."""
        return self._open

    @contextmanager
    def transaction(self) -> Iterator[Client]:
        """Yield the client: each call takes effect immediately."""
        yield self

    # Queues and subscriptions

    def create_queue(self, queue: str, **options: Any) -> bool:
        """Create a queue that receives the topic of its name; False if it exists."""
        spans = {"lease", "backoff", "max_backoff", "dedup_window"}
        known = spans | {"max_attempts", "mode", "dedup"}
        with self._mutex:
            if queue in self._queues:
                return False
            given = {key: value for key, value in options.items() if key in known}
            for option in given.keys() & spans:
                given[option] = duration(given[option], option)
            if given.get("dedup", "keep") not in ("keep", "replace", "postpone"):
                raise refused("22023", f'unknown dedup "{given["dedup"]}"')
            self._queues[queue] = _Queue(**given, bindings=[_Binding(queue, is_own=True)])
            return True

    def drop_queue(self, queue: str, *, force: bool = False) -> bool:
        """Drop a queue with its messages."""
        with self._mutex:
            return self._queues.pop(queue, None) is not None

    def pause(self, queue: str) -> bool:
        """Stop delivery from a queue; False if it was paused already."""
        found = self._queue(queue)
        before, found.paused = found.paused, True
        return not before

    def resume(self, queue: str) -> bool:
        """Resume delivery from a queue; False if it was not paused."""
        found = self._queue(queue)
        before, found.paused = found.paused, False
        return before

    def subscribe(self, queue: str, pattern: str, filter: Filter = None, **options: Any) -> bool:
        """Subscribe a queue to a topic pattern; False if the subscription exists."""
        binding = _Binding(pattern, filter)
        with self._mutex:
            found = self._queues.setdefault(queue, _Queue())
            if any(known.pattern == pattern for known in found.bindings):
                return False
            found.bindings.append(binding)
            return True

    def unsubscribe(self, queue: str, pattern: str) -> bool:
        """End a subscription; False if there was none."""
        return self._unsubscribe(queue, lambda binding: binding.pattern == pattern) > 0

    def unsubscribe_all(self, queue: str) -> int:
        """End all subscriptions of a queue; return how many there were."""
        return self._unsubscribe(queue, lambda binding: not binding.is_own)

    def _unsubscribe(self, queue: str, ends: Callable[[_Binding], bool]) -> int:
        with self._mutex:
            found = self._queues.get(queue)
            if found is None:
                return 0
            before = len(found.bindings)
            found.bindings = [binding for binding in found.bindings if not ends(binding)]
            return before - len(found.bindings)

    def alter_subscription(self, queue: str, pattern: str, filter: Filter) -> None:
        """Change the filter of a subscription; None removes it."""
        with self._mutex:
            for binding in self._queue(queue).bindings:
                if binding.pattern == pattern:
                    binding.filter = filter
                    return
        raise refused("42704", f'"{queue}" is not subscribed to "{pattern}"')

    def subscriptions(self, queue: str | None = None) -> list[Subscription]:
        """Return the subscriptions of one queue, or of all queues."""
        with self._mutex:
            rows = [
                Subscription.of(subscriber=name, pattern=binding.pattern, filter=binding.filter)
                for name, found in self._queues.items()
                for binding in found.bindings
                if not binding.is_own and queue in (None, name)
            ]
            return sorted(rows, key=lambda row: (row.subscriber, row.pattern))

    def queue_names(self) -> list[str]:
        """Return the names of the queues."""
        return sorted(self._queues)

    # Publishing

    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        headers: dict[str, Any] | None = None,
        serializer: str | None = None,
        **options: Any,
    ) -> int:
        """Publish one message and return its id."""
        payload, headers = self._payloads.prepared(topic, payload, headers, serializer)
        return self._publish([Draft(topic=topic, payload=payload, headers=headers, **options)])[0]

    def _publish(self, drafts: list[Draft]) -> list[int]:
        """Publish messages; return for each the id of the message that the queues keep."""
        if not self._open:
            raise RuntimeError("the transport is closed")
        with self._mutex:
            now = self._clock()
            ids = [self._add(draft, now) for draft in drafts]
            return [self._holder(draft, id) for draft, id in zip(drafts, ids, strict=True)]

    def _add(self, draft: Draft, now: datetime) -> int:
        queues = self._receivers(draft.topic)
        if not queues:
            raise NoQueue(
                f'no queue receives topic "{draft.topic}"', hint="Create one with create_queue."
            )
        had = self._had(queues, draft, now)
        if len(had) == len(queues):
            return max(had.values())
        id = next(self._ids)
        message = Message(
            lease_id=0,
            id=id,
            topic=draft.topic,
            priority=draft.priority,
            attempt=0,
            headers=json.loads(dumps(draft.headers or {})),
            payload=json.loads(dumps(draft.payload)),
            sender=draft.sender,
            recipient=draft.recipient,
            reply_to=draft.reply_to,
            correlation_id=draft.correlation_id,
            group_key=draft.group_key,
            published_at=now,
            expires_at=now + duration(draft.expires_in) if draft.expires_in else None,
            lease_until=None,
        )
        self._log[id] = message
        self._events[id] = []
        due = moment(draft.deliver_at, "deliver_at") or now + duration(draft.delay or 0)
        entry = _Entry(message, due, draft.dedup_key)
        for name, queue in queues.items():
            wanted = any(binding.takes(message, now) for binding in queue.bindings)
            if draft.dedup_key is not None and queue.dedup == "keep" and name not in had:
                key = (draft.topic, draft.dedup_key)
                queue.keys[key] = (id, now + queue.dedup_window)
            elif draft.dedup_key is not None and queue.dedup != "keep" and wanted:
                wanted = self._settle(queue, entry, now)
            if wanted and name not in had and queue.mode != "archive":
                queue.live[id] = replace(entry)
        return id

    def _had(self, queues: dict[str, _Queue], draft: Draft, now: datetime) -> dict[str, int]:
        """Return the queues with `dedup` keep that have had the key, with the message's id."""
        if draft.dedup_key is None:
            return {}
        key = (draft.topic, draft.dedup_key)
        return {
            name: queue.keys[key][0]
            for name, queue in queues.items()
            if queue.dedup == "keep" and key in queue.keys and queue.keys[key][1] > now
        }

    def _settle(self, queue: _Queue, entry: _Entry, now: datetime) -> bool:
        """Replace or postpone the message that has the key; return whether to add the new one."""
        if queue.dedup_window <= timedelta(0) or entry.dedup_key is None:
            return True
        key, id, due = (entry.message.topic, entry.dedup_key), entry.message.id, entry.due_at
        known, until = queue.keys.get(key, (0, now))
        old = queue.live.get(known)
        if old is None or old.lease or old.attempts or until <= now:
            pass  # the old one was delivered, or its key has expired: both are delivered
        elif queue.dedup == "replace":
            self._note("replace", queue.live.pop(known))
        else:
            self._note("postpone", old)
            old.due_at = max(old.due_at, due)
            id, due = known, old.due_at
        queue.keys[key] = (id, due + queue.dedup_window)
        return id != known

    def _holder(self, draft: Draft, id: int) -> int:
        """Return the id of the message that a single queue with another dedup than keep holds."""
        queues = list(self._receivers(draft.topic).values())
        if draft.dedup_key is None or len(queues) != 1 or queues[0].dedup == "keep":
            return id
        return queues[0].keys.get((draft.topic, draft.dedup_key), (id, None))[0]

    def publish_batch(
        self,
        topic: str,
        payloads: Iterable[Any],
        *,
        headers: Iterable[dict[str, Any] | None] | dict[str, Any] | None = None,
        dedup_keys: Iterable[str | None] | None = None,
        **options: Any,
    ) -> list[int]:
        """Publish many messages of one topic; return their ids in the same order."""
        bodies = items(payloads, "payloads")
        heads = headers_of_each(headers, len(bodies))
        keys = [None] * len(bodies) if dedup_keys is None else items(dedup_keys, "dedup_keys")
        serializer = options.pop("serializer", None)
        drafts = []
        for body, head, key in zip(bodies, heads, keys, strict=True):
            payload, given = self._payloads.prepared(topic, body, head, serializer)
            drafts.append(
                Draft(topic=topic, payload=payload, headers=given, dedup_key=key, **options)
            )
        return self._publish(drafts)

    def publish_many(self, drafts: Iterable[Draft], *, chunk: int = 10_000) -> int:
        """Publish any number of messages; return how many."""
        names = [name for name in Draft.__dataclass_fields__ if name not in ("topic", "payload")]
        return sum(
            1
            for draft in drafts
            if self.publish(
                draft.topic, draft.payload, **{name: getattr(draft, name) for name in names}
            )
        )

    def reply(
        self,
        message: Message | int,
        payload: Any,
        *,
        headers: dict[str, Any] | None = None,
        sender: str | None = None,
    ) -> int:
        """Publish a reply to the `reply_to` topic of a message; return the id of the reply."""
        asked = self._log[message] if isinstance(message, int) else message
        if asked.reply_to is None:
            raise refused("55000", f"message {asked.id} wants no reply")
        return self.publish(
            asked.reply_to,
            payload,
            headers=headers,
            sender=sender,
            recipient=asked.sender,
            correlation_id=asked.correlation_id,
        )

    # Consuming

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
        """Claim up to n messages that match the filter, for the duration of a lease."""
        if key is not None:
            raise NotImplementedError("claims have no names in memory")
        wanted, n = how_many(filter, n)
        if not 1 <= n <= 1_000_000:
            raise refused("22023", f"n must be from 1 to 1000000, not {n}")
        if done is not None:
            done.ack()
        with self._mutex:
            queue, now = self._queue(topic), self._clock()
            if queue.mode == "archive":
                raise refused("0A000", f'queue "{topic}" is an archive')
            self._take_back(queue, now)
            taken = [] if queue.paused else self._ready(queue, _test(wanted), now)[:n]
            lease_id, until = next(self._leases), now + (span(lease, "lease") or queue.lease)
            messages = []
            for entry in taken:
                entry.attempts += 1
                entry.lease, entry.lease_until = lease_id, until
                self._note("claim", entry)
                messages.append(
                    replace(
                        entry.message, lease_id=lease_id, attempt=entry.attempts, lease_until=until
                    )
                )
        batch = Batch(self, messages)
        batch.read(payload_type)
        if where is not None and batch:
            batch.keep(where, delay=duration(refused_delay, "refused_delay"))
        return batch

    def ack(self, lease_id: int | Message, ids: Named = None) -> int:
        """Acknowledge messages of a lease, or all that it holds; return how many."""
        with self._mutex:
            held = self._held(*lease_and_ids(lease_id, ids))
            for queue, entry in held:
                self._note("ack", entry)
                del queue.live[entry.message.id]
            return len(held)

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
        with self._mutex:
            held = self._held(*lease_and_ids(lease_id, ids))
            for queue, entry in held:
                self._note("nack", entry)
                self._retry(queue, entry, span(delay, "delay"), error)
            return len(held)

    def release(
        self,
        lease_id: int | Message,
        ids: Named = None,
        *,
        delay: Duration = timedelta(0),
    ) -> int:
        """Release messages of a lease without counting the attempt."""
        with self._mutex:
            held = self._held(*lease_and_ids(lease_id, ids))
            for _, entry in held:
                self._note("release", entry)
                entry.attempts -= 1
                entry.lease, entry.due_at = 0, self._clock() + duration(delay, "delay")
            return len(held)

    def bury(
        self,
        lease_id: int | Message,
        ids: Named = None,
        *,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Make messages of a lease dead letters."""
        with self._mutex:
            held = self._held(*lease_and_ids(lease_id, ids))
            for queue, entry in held:
                self._note("bury", entry)
                _bury(queue, entry, error)
            return len(held)

    def extend(self, lease_id: int, lease: Duration | None = None) -> datetime:
        """Extend a lease; return its new end."""
        with self._mutex:
            until = self._clock()
            for queue, entry in self._held(lease_id, None):
                longer = span(lease, "lease") or queue.lease
                until = entry.lease_until = self._clock() + longer
            return until

    def peek(self, queue: str, filter: Filter | int = None, n: int = 10) -> list[LogMessage]:
        """Return the next messages without claiming them; a number in place of the filter is n."""
        wanted, n = how_many(filter, n, default=10)
        with self._mutex:
            ready = self._ready(self._queue(queue), _test(wanted), self._clock())[:n]
            names = [column.name for column in fields(Message)]
            return [
                LogMessage.of(**{name: getattr(entry.message, name) for name in names})
                for entry in ready
            ]

    def seen(self, handler: str, message_id: int, *, size: int = 100) -> bool:
        """Return True if the handler has seen the message; else record the message."""
        with self._mutex:
            known = self._seen.setdefault(handler, {})
            if message_id in known:
                return True
            known[message_id] = None
            while len(known) > size:
                del known[next(iter(known))]
            return False

    def stream_begin(
        self,
        queue: str,
        consumer: str,
        owner: str,
        timeout: Duration = timedelta(seconds=30),
        lease: Duration | None = None,
    ) -> int:
        """Return 0: in memory a stream has no owner and no batches."""
        self._queue(queue)
        return 0

    # Dead letters, operations, observing

    def dead_letters(self, queue: str) -> list[tuple[Message, str | None]]:
        """Return the dead letters of a queue, each with its error."""
        return [(entry.message, entry.error) for entry in self._queue(queue).dead.values()]

    def purge(self, queue: str, filter: Filter = None, *, dry_run: bool = False) -> int:
        """Delete the waiting messages of a queue, or those that match; return how many."""
        return self._cancel(queue, self._waiting(queue, None, filter), dry_run)

    def cancel(
        self,
        queue: str,
        ids: Named = None,
        *,
        filter: Filter = None,
        dedup_key: str | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete waiting messages of a queue by id, filter or dedup key; return how many."""
        if ids is None and filter is None and dedup_key is None:
            raise refused("22023", "cancel needs ids, a filter or a dedup key")
        with self._mutex:
            chosen = [
                entry
                for entry in self._waiting(queue, ids, filter)
                if dedup_key in (None, entry.dedup_key)
            ]
            return self._cancel(queue, chosen, dry_run)

    def move(
        self,
        queue: str,
        to_queue: str,
        filter: Filter = None,
        n: int | None = None,
        *,
        dry_run: bool = False,
    ) -> int:
        """Move waiting messages to another queue; return how many."""
        with self._mutex:
            source, target = self._queue(queue), self._queue(to_queue)
            chosen = [
                entry
                for entry in self._waiting(queue, None, filter)
                if entry.message.id not in target.live and entry.message.id not in target.dead
            ][:n]
            for entry in chosen if not dry_run else []:
                del source.live[entry.message.id]
                target.live[entry.message.id] = _Entry(entry.message, entry.due_at, entry.dedup_key)
            return len(chosen)

    def reschedule(
        self,
        queue: str,
        ids: Named = None,
        *,
        filter: Filter = None,
        at: datetime | str | None = None,
        delay: Duration | None = None,
        dry_run: bool = False,
    ) -> int:
        """Change the delivery time of waiting messages; return how many."""
        with self._mutex:
            now = self._clock()
            due = moment(at, "at") or now + (span(delay, "delay") or timedelta(0))
            chosen = [
                entry
                for entry in self._waiting(queue, ids, filter)
                if due > now or entry.due_at > now
            ]
            for entry in chosen if not dry_run else []:
                entry.due_at = due
            return len(chosen)

    def replay(
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
        """Return dead letters to their queue; return how many."""
        if any(option is not None for option in (cause, to_queue, per_second, patch)):
            raise NotImplementedError("not in memory: cause, to_queue, per_second, patch")
        with self._mutex:
            found = self._queue(queue)
            chosen = self._dead(found, filter, n)
            for entry in chosen if not dry_run else []:
                del found.dead[entry.message.id]
                found.live[entry.message.id] = _Entry(entry.message, self._clock(), entry.dedup_key)
            return len(chosen)

    def discard(
        self,
        queue: str,
        filter: Filter = None,
        n: int | None = None,
        *,
        dry_run: bool = False,
        cause: Filter = None,
    ) -> int:
        """Delete dead letters; return how many."""
        if cause is not None:
            raise NotImplementedError("not in memory: cause")
        with self._mutex:
            found = self._queue(queue)
            chosen = self._dead(found, filter, n)
            for entry in chosen if not dry_run else []:
                del found.dead[entry.message.id]
            return len(chosen)

    def dead_letter(self, queue: str, message_id: int) -> Any:
        """Return the dead letter of a message; None if the message is not dead in this queue."""
        entry = self._queue(queue).dead.get(message_id)
        if entry is None:
            return None
        return {"message_id": message_id, "attempts": entry.attempts, "error": entry.error}

    def queue_policy(self, queue: str) -> dict[str, Any] | None:
        """Return the policy of a queue."""
        found = self._queue(queue)
        names = ("lease", "max_attempts", "backoff", "max_backoff")
        return {option: getattr(found, option) for option in names}

    def maintain(self, until_done: bool = True) -> None:
        """Do nothing: queues in memory need no maintenance."""

    def history(self, message_id: int) -> list[HistoryEvent]:
        """Return the events of a message, oldest first."""
        message = self._log.get(message_id)
        if message is None:
            return []
        first = HistoryEvent.of(at=message.published_at, event="publish")
        return [first, *self._events[message_id]]

    def queue_stats(self) -> list[QueueStats]:
        """Return counts, one row per queue."""
        with self._mutex:
            now = self._clock()
            return [
                QueueStats.of(
                    queue=name,
                    paused=queue.paused,
                    ready=len(self._ready(queue, None, now)),
                    leased=sum(entry.lease > 0 for entry in queue.live.values()),
                    dead=len(queue.dead),
                )
                for name, queue in sorted(self._queues.items())
            ]

    # Implementation

    def _note(self, event: str, entry: _Entry) -> None:
        row = HistoryEvent.of(at=self._clock(), event=event, attempt=entry.attempts)
        self._events[entry.message.id].append(row)

    def fetch_rows(
        self,
        statement: LiteralString,
        *parameters: Any,
        factory: Any = None,
        repeatable: bool = False,
    ) -> list[Any]:
        if statement is sql.NOW:
            return [(self._clock(),)]
        raise NotImplementedError(f"not in memory: {statement.strip()}")

    def _queue(self, name: str) -> _Queue:
        queue = self._queues.get(name)
        if queue is None and self._on_demand:
            self.create_queue(name)
            queue = self._queues[name]
        if queue is None:
            raise QueueNotFound(f'queue "{name}" does not exist', hint="Use create_queue.")
        return queue

    def _receivers(self, topic: str) -> dict[str, _Queue]:
        def receivers() -> dict[str, _Queue]:
            return {
                name: queue
                for name, queue in self._queues.items()
                if any(binding.receives(topic) for binding in queue.bindings)
            }

        found = receivers()
        if not found and self._on_demand:
            self.create_queue(topic)
            found = receivers()
        return found

    def _ready(self, queue: _Queue, test: matching.Test | None, now: datetime) -> list[_Entry]:
        heads: dict[str, int] = {}
        for id, entry in sorted(queue.live.items()):
            if entry.message.group_key is not None:
                heads.setdefault(entry.message.group_key, id)
        ready = [
            entry
            for id, entry in queue.live.items()
            if not entry.lease
            and entry.due_at <= now
            and (entry.message.expires_at is None or entry.message.expires_at > now)
            and heads.get(entry.message.group_key or "", id) == id
            and (test is None or test(world(entry.message, entry.attempts, now)))
        ]
        return sorted(ready, key=lambda e: (-e.message.priority, e.attempts == 0, e.message.id))

    def _take_back(self, queue: _Queue, now: datetime) -> None:
        for entry in list(queue.live.values()):
            if entry.lease and entry.lease_until is not None and entry.lease_until <= now:
                self._retry(queue, entry, timedelta(0), "timeout")

    def _retry(
        self, queue: _Queue, entry: _Entry, delay: timedelta | None, error: str | None
    ) -> None:
        if entry.attempts >= queue.max_attempts:
            _bury(queue, entry, error)
            return
        backoff = min(queue.backoff * 2 ** (entry.attempts - 1), queue.max_backoff)
        entry.lease, entry.error = 0, error
        entry.due_at = self._clock() + (backoff if delay is None else delay)

    def _held(self, lease_id: int, ids: Sequence[int] | None) -> list[tuple[_Queue, _Entry]]:
        held = {
            entry.message.id: (queue, entry)
            for queue in self._queues.values()
            for entry in queue.live.values()
            if entry.lease == lease_id
        }
        if not held or not held.keys() >= set(held if ids is None else ids):
            raise LeaseLost(f"lease {lease_id} does not hold these messages")
        return [held[id] for id in (held if ids is None else ids)]

    def _dead(self, queue: _Queue, filter: Filter, n: int | None) -> list[_Entry]:
        test, now = _test(filter), self._clock()
        chosen = [
            entry
            for entry in queue.dead.values()
            if test is None or test(world(entry.message, entry.attempts, now))
        ]
        return chosen[:n]

    def _waiting(self, queue: str, ids: Named, filter: Filter) -> list[_Entry]:
        test, now, wanted = _test(filter), self._clock(), ids_of(ids)
        with self._mutex:
            chosen = [
                entry
                for id, entry in self._queue(queue).live.items()
                if not entry.lease
                and (wanted is None or id in wanted)
                and (test is None or test(world(entry.message, entry.attempts, now)))
            ]
        return sorted(chosen, key=lambda e: (-e.message.priority, e.attempts == 0, e.message.id))

    def _cancel(self, queue: str, chosen: list[_Entry], dry_run: bool) -> int:
        with self._mutex:
            found = self._queue(queue)
            for entry in chosen if not dry_run else []:
                del found.live[entry.message.id]
                for key in [k for k, (id, _) in found.keys.items() if id == entry.message.id]:
                    del found.keys[key]
            return len(chosen)


class MemoryTransport(Transport):
    """A `Transport` on queues in memory, for tests, with the same methods and options.

    :param config: the options; None for the defaults.
    :param on_demand: create a queue when it is first published to or claimed from.
    :param clock: returns the current time; a test can replace it.

    >>> with MemoryTransport(on_demand=True) as transport:
    ...     transport.publish("orders", {"amount": 12})
    """

    client: MemoryClient

    def __init__(
        self,
        config: TransportConfig | None = None,
        *,
        on_demand: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        **options: Any,
    ) -> None:
        self.config = TransportConfig.of(config, **options)
        self.client = MemoryClient(on_demand=on_demand, clock=clock)
        self._publisher = None

    def close(self) -> None:
        """Publish waiting messages, and close the client."""
        self.disconnect()


def _bury(queue: _Queue, entry: _Entry, error: str | None) -> None:
    entry.lease, entry.error = 0, error
    queue.dead[entry.message.id] = queue.live.pop(entry.message.id)


def _test(filter: Filter) -> matching.Test | None:
    wanted = document(filter)
    return matching.compile_filter(wanted) if wanted else None
