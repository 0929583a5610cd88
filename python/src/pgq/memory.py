"""A queue in memory, for tests of programs that use one: the same methods, no server.

It does what the database does, as far as one process can see: topics, filters, priorities, delays,
leases, retries, dead letters, ordering groups. It is not fast, and keeps nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, LiteralString, Self

from pgq import _sql, matching
from pgq.batch import Batch
from pgq.breaker import CircuitBreaker
from pgq.client import Client, PooledClient
from pgq.config import ConsumerConfig, TransportConfig
from pgq.consumer import Consumer
from pgq.errors import LeaseLost, NoQueue, QueueNotFound
from pgq.filters import Filter, document
from pgq.message import Draft, Message
from pgq.transport import Transport

__all__ = ["MemoryClient", "MemoryTransport"]


@dataclass
class _Entry:
    """A message in a queue."""

    message: Message
    due_at: datetime
    attempts: int = 0
    lease: int = 0
    lease_until: datetime | None = None
    error: str | None = None


@dataclass
class _Queue:
    lease: timedelta = timedelta(seconds=30)
    max_attempts: int = 3
    backoff: timedelta = timedelta(seconds=1)
    max_backoff: timedelta = timedelta(minutes=5)
    bindings: list[tuple[str, matching.Test | None]] = field(default_factory=list)
    paused: bool = False
    live: dict[int, _Entry] = field(default_factory=dict)
    dead: dict[int, _Entry] = field(default_factory=dict)


class MemoryClient(PooledClient):
    """The methods of a client, on queues in memory.

    :param on_demand: publishing makes the queue that its topic names, if nobody receives it.
    :param clock: what time it is; a test may turn it.
    """

    def __init__(
        self,
        *,
        on_demand: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.conninfo = "memory:"
        self.breaker = CircuitBreaker()
        self._on_demand = on_demand
        self._clock = clock
        self._open = True
        self._queues: dict[str, _Queue] = {}
        self._dedup: dict[tuple[str, str], int] = {}
        self._ids = count(1)
        self._leases = count(1)
        self._mutex = threading.RLock()

    def open(self, *, wait: bool = True) -> Self:
        """Begin."""
        self._open = True
        return self

    def close(self) -> None:
        """End; what is in the queues stays."""
        self._open = False

    def connected(self) -> bool:
        """Whether it is open."""
        return self._open

    @contextmanager
    def transaction(self) -> Iterator[Client]:
        """Yield the client: each call takes effect at once."""
        yield self

    # Queues and subscriptions

    def create_queue(self, name: str, **options: Any) -> bool:
        """Create a queue that receives the topic of its name; False if it is there already."""
        known = {"lease", "max_attempts", "backoff", "max_backoff"}
        with self._mutex:
            if name in self._queues:
                return False
            given = {key: value for key, value in options.items() if key in known}
            self._queues[name] = _Queue(**given, bindings=[(name, None)])
            return True

    def drop_queue(self, name: str, *, force: bool = False) -> bool:
        """Drop a queue with all that it holds."""
        with self._mutex:
            return self._queues.pop(name, None) is not None

    def pause(self, name: str) -> bool:
        """Stop delivery; False if it was stopped already."""
        queue = self._queue(name)
        before, queue.paused = queue.paused, True
        return not before

    def resume(self, name: str) -> bool:
        """Go on with delivery; False if the queue was not paused."""
        queue = self._queue(name)
        before, queue.paused = queue.paused, False
        return before

    def subscribe(
        self, subscriber: str, pattern: str, filter: Filter = None, **options: Any
    ) -> bool:
        """Let a queue, made if new, receive the topics of a pattern; False if it does already."""
        with self._mutex:
            queue = self._queues.setdefault(subscriber, _Queue())
            if any(known == pattern for known, _ in queue.bindings):
                return False
            queue.bindings.append((pattern, _test(filter)))
            return True

    def unsubscribe(self, subscriber: str, pattern: str) -> bool:
        """End a subscription; False if there was none."""
        queue = self._queue(subscriber)
        before = len(queue.bindings)
        queue.bindings = [binding for binding in queue.bindings if binding[0] != pattern]
        return len(queue.bindings) < before

    # Publishing

    def publish(
        self, topic: str, payload: Any, *, headers: dict[str, Any] | None = None, **options: Any
    ) -> int:
        """Publish one message and return its id."""
        draft = Draft(topic=topic, payload=payload, headers=headers, **options)
        now = self._clock()
        if not self._open:
            raise RuntimeError("the transport is closed")
        with self._mutex:
            if draft.dedup_key is not None:
                known = self._dedup.get((topic, draft.dedup_key))
                if known is not None:
                    return known
            id = next(self._ids)
            message = Message(
                lease_id=0,
                id=id,
                topic=topic,
                priority=draft.priority,
                attempt=0,
                headers=json.loads(json.dumps(headers or {})),
                payload=json.loads(json.dumps(payload)),
                sender=draft.sender,
                recipient=draft.recipient,
                reply_to=draft.reply_to,
                correlation_id=draft.correlation_id,
                group_key=draft.group_key,
                published_at=now,
                expires_at=now + draft.expires_in if draft.expires_in else None,
                lease_until=None,
            )
            queues = self._receivers(topic)
            if not queues:
                raise NoQueue(
                    f'no queue receives topic "{topic}"', hint="Create one with create_queue."
                )
            for queue in queues:
                tests = [test for pattern, test in queue.bindings if _receives(pattern, topic)]
                if any(test is None or test(_world(message, 0, now)) for test in tests):
                    queue.live[id] = _Entry(message, now + (draft.delay or timedelta(0)))
            if draft.dedup_key is not None:
                self._dedup[topic, draft.dedup_key] = id
            return id

    def publish_batch(
        self,
        topic: str,
        payloads: Iterable[Any],
        *,
        headers: Iterable[dict[str, Any] | None] | None = None,
        dedup_keys: Iterable[str | None] | None = None,
        **options: Any,
    ) -> list[int]:
        """Publish many messages of one topic; return their ids in this order."""
        bodies = list(payloads)
        heads = [None] * len(bodies) if headers is None else list(headers)
        keys = [None] * len(bodies) if dedup_keys is None else list(dedup_keys)
        return [
            self.publish(topic, body, headers=head, dedup_key=key, **options)
            for body, head, key in zip(bodies, heads, keys, strict=True)
        ]

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

    # Consuming

    def claim(
        self,
        topic: str,
        filter: Filter = None,
        n: int = 1,
        *,
        lease: timedelta | None = None,
        key: str | None = None,
        done: Batch | None = None,
        where: Callable[[Message], bool] | None = None,
        refused_delay: timedelta = timedelta(0),
    ) -> Batch:
        """Take up to n messages that match the filter, for the time of a lease."""
        if key is not None:
            raise NotImplementedError("claims have no names in memory")
        if done is not None:
            done.ack()
        with self._mutex:
            queue, now = self._queue(topic), self._clock()
            self._take_back(queue, now)
            taken = [] if queue.paused else self._ready(queue, _test(filter), now)[:n]
            lease_id, until = next(self._leases), now + (lease or queue.lease)
            messages = []
            for entry in taken:
                entry.attempts += 1
                entry.lease, entry.lease_until = lease_id, until
                messages.append(
                    replace(
                        entry.message, lease_id=lease_id, attempt=entry.attempts, lease_until=until
                    )
                )
        batch = Batch(self, messages)
        if where is not None and messages:
            batch.keep(where, delay=refused_delay)
        return batch

    def ack(self, lease_id: int, ids: Sequence[int] | None = None) -> int:
        """Acknowledge messages of a lease, or all that it holds; return how many."""
        with self._mutex:
            held = self._held(lease_id, ids)
            for queue, entry in held:
                del queue.live[entry.message.id]
            return len(held)

    def nack(
        self,
        lease_id: int,
        ids: Sequence[int] | None = None,
        *,
        delay: timedelta | None = None,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Refuse messages of a lease: they are retried, or become dead letters."""
        with self._mutex:
            held = self._held(lease_id, ids)
            for queue, entry in held:
                self._retry(queue, entry, delay, error)
            return len(held)

    def release(
        self,
        lease_id: int,
        ids: Sequence[int] | None = None,
        *,
        delay: timedelta = timedelta(0),
    ) -> int:
        """Give messages of a lease back without counting the attempt."""
        with self._mutex:
            held = self._held(lease_id, ids)
            for _, entry in held:
                entry.attempts -= 1
                entry.lease, entry.due_at = 0, self._clock() + delay
            return len(held)

    def bury(
        self,
        lease_id: int,
        ids: Sequence[int] | None = None,
        *,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Make messages of a lease dead letters."""
        with self._mutex:
            held = self._held(lease_id, ids)
            for queue, entry in held:
                _bury(queue, entry, error)
            return len(held)

    def extend(self, lease_id: int, lease: timedelta | None = None) -> datetime:
        """Hold the messages of a lease for longer; return until when."""
        with self._mutex:
            until = self._clock()
            for queue, entry in self._held(lease_id, None):
                until = entry.lease_until = self._clock() + (lease or queue.lease)
            return until

    def peek(self, topic: str, filter: Filter = None, n: int = 10) -> list[dict[str, Any]]:
        """Look at the next messages; takes nothing."""
        with self._mutex:
            ready = self._ready(self._queue(topic), _test(filter), self._clock())[:n]
            names = Message.__dataclass_fields__
            return [{name: getattr(entry.message, name) for name in names} for entry in ready]

    def consume(
        self,
        topic: str,
        filter: Filter = None,
        config: ConsumerConfig | None = None,
        **options: Any,
    ) -> Any:
        """Return the messages of a queue as they come."""
        return super().consume(topic, filter, config, **_POLLING | options)

    # Dead letters, upkeep, looking

    def dead_letters(self, topic: str) -> list[tuple[Message, str | None]]:
        """Return the dead letters of a queue, each with its error."""
        return [(entry.message, entry.error) for entry in self._queue(topic).dead.values()]

    def replay(
        self, topic: str, filter: Filter = None, n: int | None = None, *, dry_run: bool = False
    ) -> int:
        """Put dead letters back into their queue; return how many."""
        with self._mutex:
            queue = self._queue(topic)
            chosen = self._dead(queue, filter, n)
            for entry in chosen if not dry_run else []:
                del queue.dead[entry.message.id]
                queue.live[entry.message.id] = _Entry(entry.message, self._clock())
            return len(chosen)

    def discard(
        self, topic: str, filter: Filter = None, n: int | None = None, *, dry_run: bool = False
    ) -> int:
        """Delete dead letters; return how many."""
        with self._mutex:
            queue = self._queue(topic)
            chosen = self._dead(queue, filter, n)
            for entry in chosen if not dry_run else []:
                del queue.dead[entry.message.id]
            return len(chosen)

    def maintain(self) -> None:
        """Do nothing: there is no upkeep."""

    def queue_stats(self) -> list[dict[str, Any]]:
        """Return how the queues are doing, a row for each."""
        with self._mutex:
            now = self._clock()
            return [
                {
                    "queue": name,
                    "paused": queue.paused,
                    "ready": len(self._ready(queue, None, now)),
                    "leased": sum(entry.lease > 0 for entry in queue.live.values()),
                    "dead": len(queue.dead),
                }
                for name, queue in sorted(self._queues.items())
            ]

    # How

    def _rows(
        self,
        statement: LiteralString,
        *parameters: Any,
        factory: Any = None,
        repeatable: bool = False,
    ) -> list[Any]:
        if statement is _sql.NOW:
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

    def _receivers(self, topic: str) -> list[_Queue]:
        def receivers() -> list[_Queue]:
            return [
                queue
                for queue in self._queues.values()
                if any(_receives(pattern, topic) for pattern, _ in queue.bindings)
            ]

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
            and (test is None or test(_world(entry.message, entry.attempts, now)))
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
            if test is None or test(_world(entry.message, entry.attempts, now))
        ]
        return chosen[:n]


#: There are no notifications: a consumer looks often.
_POLLING: dict[str, Any] = {
    "notifications": False,
    "poll_interval": timedelta(milliseconds=10),
    "maintain": False,
}


class MemoryTransport(Transport):
    """A `Transport` on queues in memory, for tests: the same methods and configuration."""

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
        """Publish what waits, and end."""
        self.disconnect()

    def consumer(
        self, topic: str, handler: Callable[[Message], Any], filter: Filter = None, **options: Any
    ) -> Consumer:
        """Return a consumer that claims as many as the configuration allows."""
        return super().consumer(topic, handler, filter, **_POLLING | options)


def _bury(queue: _Queue, entry: _Entry, error: str | None) -> None:
    entry.lease, entry.error = 0, error
    queue.dead[entry.message.id] = queue.live.pop(entry.message.id)


def _receives(pattern: str, topic: str) -> bool:
    return matching.topic_matches(matching.topic_words(pattern), topic)


def _test(filter: Filter) -> matching.Test | None:
    wanted = document(filter)
    return matching.compile_filter(wanted) if wanted else None


def _world(message: Message, attempts: int, now: datetime) -> matching.World:
    def seconds(moment: datetime | None) -> Decimal | None:
        return None if moment is None else Decimal(str(moment.timestamp()))

    own = {
        "id": message.id,
        "topic": message.topic,
        "priority": message.priority,
        "attempt": attempts,
        "sender": message.sender,
        "recipient": message.recipient,
        "reply_to": message.reply_to,
        "correlation_id": message.correlation_id,
        "group_key": message.group_key,
        "published_at": seconds(message.published_at),
        "expires_at": seconds(message.expires_at),
    }
    exact = matching.Message(_exact(message.headers), _exact(message.payload), own)
    return matching.World(exact, seconds(now) or Decimal(0))


def _exact(value: Any) -> Any:
    return matching.loads(json.dumps(value))
