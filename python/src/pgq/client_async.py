"""The functions of pgq as methods, on a connection of the caller or on connections of its own."""

from __future__ import annotations

import select
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from itertools import islice
from types import TracebackType
from typing import Any, LiteralString, Self, TypeVar
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, scalar_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from pgq import _sql, _trace
from pgq._adapt import leaves_text
from pgq._aio import Lock
from pgq._json import FastJsonbLoader, json_list
from pgq._trouble import is_trouble
from pgq.batch_async import AsyncBatch
from pgq.breaker import CircuitBreaker
from pgq.config import ConsumerConfig
from pgq.errors import PgqError, RequestTimeout, translated
from pgq.filters import F, Filter, document
from pgq.listener_async import AsyncListener
from pgq.message import Draft, Message, received
from pgq.source_async import AsyncSource
from pgq.stream_async import AsyncStream

__all__ = ["AsyncClient", "AsyncPooledClient", "connect_async"]

T = TypeVar("T")
Conn = AsyncConnection[Any]
Row = dict[str, Any]

# A cursor is not kept for its next use while it holds a result as long as this.
_LONG_RESULT = 1000

# The server says that it has done nothing of what was asked.
_UNDONE = frozenset(["40001", "40P01", "57P01", "57P02", "57P03"])


def _messages(cursor: AsyncCursor[Any]) -> Callable[[Sequence[Any]], Message]:
    return received


def _json(value: Any) -> Jsonb | None:
    return None if value is None else Jsonb(value)


class _Keeping(AsyncConnection[Any]):
    """A connection that keeps its cursors: to make one costs about as much as to use it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.adapters.register_loader("jsonb", FastJsonbLoader)
        self.kept: dict[Any, AsyncCursor[Any]] = {}


class AsyncClient:
    """The functions of pgq on a connection that the caller has lent.

    It never commits: what it publishes and acknowledges is part of the caller's transaction.
    """

    #: How values are to be adapted: as psycopg does it everywhere, or as on this connection.
    _context: Conn | None = None

    def __init__(self, conn: Conn) -> None:
        self._conn = self._context = conn
        self._loader = FastJsonbLoader if leaves_text(conn) else None

    # Queues and subscriptions

    async def create_queue(
        self,
        name: str,
        *,
        lane_keys: Sequence[str] | None = None,
        lease: timedelta = timedelta(seconds=30),
        max_attempts: int = 3,
        backoff: timedelta = timedelta(seconds=1),
        max_backoff: timedelta = timedelta(minutes=5),
        retention: timedelta = timedelta(days=1),
        mode: str = "queue",
        dedup_window: timedelta = timedelta(minutes=5),
        on_expiry: str = "dead_letter",
        set_size: int = 100,
        journal: str = "all",
        on_dead: str = "release",
        suggestions: bool = False,
    ) -> bool:
        """Create a queue that receives the topic of its name; False if it is there already."""
        return await self._value(
            bool,
            _sql.CREATE_QUEUE,
            *(name, None if lane_keys is None else list(lane_keys), lease, max_attempts),
            *(backoff, max_backoff, retention, mode, dedup_window, on_expiry, set_size),
            *(journal, on_dead, suggestions),
        )

    async def alter_queue(
        self,
        name: str,
        *,
        lane_keys: Sequence[str] | None = None,
        lease: timedelta | None = None,
        max_attempts: int | None = None,
        backoff: timedelta | None = None,
        max_backoff: timedelta | None = None,
        retention: timedelta | None = None,
        mode: str | None = None,
        dedup_window: timedelta | None = None,
        on_expiry: str | None = None,
        set_size: int | None = None,
        journal: str | None = None,
        on_dead: str | None = None,
        suggestions: bool | None = None,
    ) -> None:
        """Change the given parts of a queue's policy; ``lane_keys=[]`` removes the lanes."""
        await self._rows(
            _sql.ALTER_QUEUE,
            *(name, None if lane_keys is None else list(lane_keys), lease, max_attempts),
            *(backoff, max_backoff, retention, mode, dedup_window, on_expiry, set_size),
            *(journal, on_dead, suggestions),
        )

    async def drop_queue(self, name: str, *, force: bool = False) -> bool:
        """Drop a queue; one that still holds messages only by force."""
        return await self._value(bool, _sql.DROP_QUEUE, name, force)

    async def pause(self, name: str) -> bool:
        """Stop delivery; False if it was stopped already."""
        return await self._value(bool, _sql.PAUSE, name)

    async def resume(self, name: str) -> bool:
        """Go on with delivery; False if the queue was not paused."""
        return await self._value(bool, _sql.RESUME, name)

    async def subscribe(
        self,
        subscriber: str,
        pattern: str,
        filter: Filter = None,
        *,
        since: datetime | None = None,
        since_id: int | None = None,
    ) -> bool:
        """Let a queue, made if new, receive the topics of a pattern; False if it does already."""
        wanted = _json(document(filter))
        return await self._value(bool, _sql.SUBSCRIBE, subscriber, pattern, wanted, since, since_id)

    async def unsubscribe(self, subscriber: str, pattern: str) -> bool:
        """End a subscription; False if there was none."""
        return await self._value(bool, _sql.UNSUBSCRIBE, subscriber, pattern)

    async def unsubscribe_all(self, subscriber: str) -> int:
        """End all subscriptions of a queue; return how many there were."""
        return await self._value(int, _sql.UNSUBSCRIBE_ALL, subscriber)

    async def alter_subscription(self, subscriber: str, pattern: str, filter: Filter) -> None:
        """Give a subscription another filter."""
        await self._rows(_sql.ALTER_SUBSCRIPTION, subscriber, pattern, _json(document(filter)))

    # Publishing

    async def publish(
        self,
        topic: str,
        payload: Any,
        *,
        headers: dict[str, Any] | None = None,
        priority: int = 0,
        delay: timedelta | None = None,
        expires_in: timedelta | None = None,
        sender: str | None = None,
        recipient: str | None = None,
        reply_to: str | None = None,
        correlation_id: str | None = None,
        group_key: str | None = None,
        dedup_key: str | None = None,
    ) -> int:
        """Publish one message and return its id."""
        return await self._value(
            int,
            _sql.PUBLISH,
            *(topic, Jsonb(payload), Jsonb(_trace.inject(headers)), priority, delay, expires_in),
            *(sender, recipient, reply_to, correlation_id, group_key, dedup_key),
        )

    async def publish_batch(
        self,
        topic: str,
        payloads: Iterable[Any],
        *,
        headers: Iterable[dict[str, Any] | None] | None = None,
        priority: int = 0,
        delay: timedelta | None = None,
        expires_in: timedelta | None = None,
        sender: str | None = None,
        recipient: str | None = None,
        reply_to: str | None = None,
        correlation_id: str | None = None,
        group_key: str | None = None,
        dedup_keys: Iterable[str | None] | None = None,
    ) -> list[int]:
        """Publish many messages of one topic, all or none; return their ids in this order."""
        bodies = list(payloads)
        common = _trace.inject(None)
        heads: list[dict[str, Any]] | None = None
        if headers is not None:
            heads = [common | (header or {}) for header in headers]
        elif common:
            heads = [common] * len(bodies)
        return await self._rows(
            _sql.PUBLISH_BATCH,
            *(topic, json_list(bodies, self._context)),
            None if heads is None else json_list(heads, self._context),
            *(priority, delay, expires_in, sender, recipient, reply_to),
            *(correlation_id, group_key, None if dedup_keys is None else list(dedup_keys)),
            factory=scalar_row,
        )

    async def publish_many(self, drafts: Iterable[Draft], *, chunk: int = 10_000) -> int:
        """Publish any number of messages by COPY, all or none; return how many.

        The database routes them `chunk` at a time. COPY needs the right to insert into
        ``pgq.message``.
        """
        source = iter(drafts)
        common = _trace.inject(None)
        count = 0
        try:
            async with self._unit() as conn:
                now = await self._now(conn)
                while part := list(islice(source, chunk)):
                    async with conn.cursor() as cursor, cursor.copy(_sql.COPY) as copy:
                        for draft in part:
                            await copy.write_row(_copied(draft, common, now))
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
        return await self._value(
            int, _sql.REPLY, id, Jsonb(payload), Jsonb(_trace.inject(headers)), sender
        )

    # Consuming

    async def claim(
        self,
        topic: str,
        filter: Filter = None,
        n: int = 1,
        *,
        lease: timedelta | None = None,
        key: str | None = None,
        done: AsyncBatch | None = None,
        where: Callable[[Message], bool] | None = None,
        refused_delay: timedelta = timedelta(0),
    ) -> AsyncBatch:
        """Take up to n messages that match the filter, for the time of a lease.

        `done` is the batch before: what is left of it is acknowledged in the same call and commit.
        `where` is a second stage, here: what it refuses goes back unharmed, after `refused_delay`
        if one is given.
        """
        wanted = _json(document(filter))
        before = None if done is None else done.unfinished
        messages: list[Message] = await self._rows(
            *(_sql.CLAIM, topic, wanted, n, lease, key, before),
            factory=_messages,
            repeatable=before is None,
        )
        if done is not None:
            done.finish()
        batch = AsyncBatch(self, messages)
        if where is not None and messages:
            await batch.keep(where, delay=refused_delay)
        return batch

    async def claim_by_id(
        self, topic: str, message_id: int, *, lease: timedelta | None = None
    ) -> AsyncBatch:
        """Take this message of a queue, if nobody else has it; a batch of one or none."""
        return await self.claim(topic, F.msg.id == message_id, lease=lease)

    async def leased(self, lease_id: int, slice: int = 0, of: int = 1) -> AsyncBatch:
        """Return the messages that a lease holds, again, or a slice of them."""
        messages: list[Message] = await self._rows(
            _sql.LEASED, lease_id, slice, of, factory=_messages, repeatable=True
        )
        return AsyncBatch(self, messages)

    async def ack(self, lease_id: int, ids: Sequence[int] | None = None) -> int:
        """Acknowledge messages of a lease, or all that it holds; return how many."""
        return await self._value(int, _sql.ACK, lease_id, _ids(ids))

    async def nack(
        self,
        lease_id: int,
        ids: Sequence[int] | None = None,
        *,
        delay: timedelta | None = None,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Refuse messages of a lease: they are retried, or become dead letters."""
        return await self._value(
            int, _sql.NACK, lease_id, _ids(ids), delay, _text(error), _json(details)
        )

    async def release(
        self,
        lease_id: int,
        ids: Sequence[int] | None = None,
        *,
        delay: timedelta = timedelta(0),
    ) -> int:
        """Give messages of a lease back without counting the attempt."""
        return await self._value(int, _sql.RELEASE, lease_id, _ids(ids), delay)

    async def bury(
        self,
        lease_id: int,
        ids: Sequence[int] | None = None,
        *,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Make messages of a lease dead letters."""
        return await self._value(int, _sql.BURY, lease_id, _ids(ids), _text(error), _json(details))

    async def extend(self, lease_id: int, lease: timedelta | None = None) -> datetime | None:
        """Hold the messages of a lease for longer; return until when (None: it has no end)."""
        rows = await self._rows(_sql.EXTEND, lease_id, lease, factory=scalar_row, repeatable=True)
        until: datetime | None = rows[0]
        return until

    async def seen(self, handler: str, message_id: int, *, size: int = 100) -> bool:
        """Whether the handler has seen the message; it has now. Call it with the work."""
        return await self._value(bool, _sql.SEEN, handler, message_id, size)

    async def peek(self, topic: str, filter: Filter = None, n: int = 10) -> list[Row]:
        """Look at the next messages; takes nothing."""
        return await self._table(_sql.PEEK, topic, _json(document(filter)), n)

    async def wait_begin(self, topic: str, waiter: str, timeout: timedelta) -> timedelta:
        """Say that a consumer is about to sleep; return how long it may."""
        rows = await self._rows(
            _sql.WAIT_BEGIN, topic, waiter, timeout, factory=scalar_row, repeatable=True
        )
        span: timedelta = rows[0]
        return span

    async def wait_end(self, topic: str, waiter: str) -> bool:
        """Say that a consumer is awake."""
        return await self._value(bool, _sql.WAIT_END, topic, waiter)

    # Dead letters, upkeep, looking

    async def replay(
        self, topic: str, filter: Filter = None, n: int | None = None, *, dry_run: bool = False
    ) -> int:
        """Put dead letters back into their queue; return how many."""
        return await self._value(int, _sql.REPLAY, topic, _json(document(filter)), n, dry_run)

    async def discard(
        self, topic: str, filter: Filter = None, n: int | None = None, *, dry_run: bool = False
    ) -> int:
        """Delete dead letters; return how many."""
        return await self._value(int, _sql.DISCARD, topic, _json(document(filter)), n, dry_run)

    async def maintain(self) -> None:
        """Do all upkeep at once; queues work without it."""
        async with self._session() as conn:
            await conn.execute(_sql.MAINTAIN)

    async def queue_stats(self) -> list[Row]:
        """Return how the queues are doing, a row for each."""
        return await self._table(_sql.QUEUE_STATS)

    async def metrics(self) -> list[Row]:
        """Return the numbers to watch, a row for each."""
        return await self._table(_sql.METRICS)

    async def relays(self) -> list[Row]:
        """Return where relays forward queues to, and how they are doing."""
        return await self._table(_sql.RELAYS)

    async def history(self, message_id: int) -> list[Row]:
        """Return what happened to a message, oldest first."""
        return await self._table(_sql.HISTORY, message_id)

    async def replies(self, correlation_id: str) -> list[Row]:
        """Return the messages of the log with this correlation id, oldest first."""
        return await self._table(_sql.REPLIES, correlation_id)

    async def matches(self, filter: Filter, headers: dict[str, Any], payload: Any = None) -> bool:
        """Whether a message with these headers and this payload would match the filter."""
        wanted = _json(document(filter))
        return await self._value(bool, _sql.MATCHES, wanted, Jsonb(headers), _json(payload))

    async def explain_filter(self, topic: str, filter: Filter) -> dict[str, str]:
        """Return what a person wants to know about a filter on a queue."""
        rows = await self._rows(_sql.EXPLAIN_FILTER, topic, _json(document(filter)))
        return dict(rows)

    async def version(self) -> str:
        """Return the version of pgq in the database."""
        return await self._value(str, _sql.VERSION)

    async def connected(self) -> bool:
        """Whether the database answers."""
        try:
            await self._rows(_sql.PING)
        except psycopg.Error:
            return False
        return True

    # How

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Conn]:
        """Yield the connection for one statement."""
        yield self._conn

    @asynccontextmanager
    async def _unit(self) -> AsyncIterator[Conn]:
        """Yield the connection for several statements, all or none of which take effect."""
        async with self._session() as conn:
            if not conn.autocommit:
                await conn.execute(_sql.PING)  # so that the block is a part of a transaction
            async with conn.transaction():
                yield conn

    async def _now(self, conn: Conn) -> datetime:
        row = await (await conn.execute(_sql.NOW)).fetchone()
        now: datetime = row[0] if row else datetime.min
        return now

    async def _rows(
        self,
        statement: LiteralString,
        *parameters: Any,
        factory: Any = None,
        repeatable: bool = False,
    ) -> list[Any]:
        """Run a statement and return its rows, made by the factory."""
        return await _run(self._conn, statement, parameters, factory, self._loader)

    async def _table(self, statement: LiteralString, *parameters: Any) -> list[Row]:
        return await self._rows(statement, *parameters, factory=dict_row, repeatable=True)

    async def _value(self, kind: type[T], statement: LiteralString, *parameters: Any) -> T:
        rows = await self._rows(statement, *parameters, factory=scalar_row)
        value: T = rows[0]
        return value


class AsyncPooledClient(AsyncClient):
    """A client with connections of its own: each call is a transaction, unless said otherwise.

    Made by `connect_async`. Calls that are safe to repeat are repeated when the connection fails;
    publishing goes through a circuit breaker.
    """

    def __init__(
        self,
        conninfo: str = "",
        *,
        pool_size: int = 10,
        timeout: timedelta = timedelta(seconds=10),
        breaker: CircuitBreaker | None = None,
        **options: Any,
    ) -> None:
        self.conninfo = conninfo
        self.breaker = breaker or CircuitBreaker()
        self._options: dict[str, Any] = {"fallback_application_name": "pgq"} | options
        self._pooled = False
        self._pool: AsyncConnectionPool[Conn] = AsyncConnectionPool(
            conninfo,
            connection_class=_Keeping,
            kwargs=self._options | {"autocommit": True},
            min_size=1,
            max_size=pool_size,
            timeout=timeout.total_seconds(),
            # Its pauses double for as long: after that the next call tries anew.
            reconnect_timeout=10,
            configure=self._adapt,
            check=_check,
            open=False,
            name="pgq",
        )
        self._listener: AsyncListener | None = None
        self._reply_queue: str | None = None
        self._reply_lock = Lock()
        self._guard = threading.Lock()
        self._takers = 0
        self._spare: Conn | None = None
        self._closing = False

    async def open(self, *, wait: bool = True) -> Self:
        """Connect, and raise what is wrong if that fails; or only begin to."""
        if wait:
            # The pool would only say that it has waited for too long.
            async with await self.connection() as conn:
                # A pooler makes up the number of a session, which it shares between clients.
                cursor = conn.cursor(row_factory=scalar_row)
                await cursor.execute(_sql.BACKEND_PID)
                self._pooled = await cursor.fetchone() != conn.info.backend_pid
        await self._pool.open(wait=wait)
        return self

    async def close(self) -> None:
        """Close all connections."""
        listener, self._listener = self._listener, None
        queue, self._reply_queue = self._reply_queue, None
        if queue is not None:
            with suppress(psycopg.Error, PgqError):
                await self.drop_queue(queue, force=True)
        if listener is not None:
            await listener.stop()
        with self._guard:
            self._closing = True
            conn, self._spare = self._spare, None
        if conn is not None:
            await self._pool.putconn(conn)
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def connection(self) -> Conn:
        """Open a connection that is not of the pool; whoever asked for it closes it."""
        conn = await AsyncConnection.connect(self.conninfo, **self._options, autocommit=True)
        await self._adapt(conn)
        return conn

    async def _adapt(self, conn: Conn) -> None:
        """Prepare no statement in a session that the next transaction may not get."""
        if self._pooled and "prepare_threshold" not in self._options:
            conn.prepare_threshold = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncClient]:
        """Yield a client whose calls are one transaction."""
        async with self._session() as conn, conn.transaction():
            yield AsyncClient(conn)

    @property
    def listener(self) -> AsyncListener:
        """What hears notifications, on one connection for all consumers of this client."""
        if self._listener is None:
            self._listener = AsyncListener(self)
        return self._listener

    def consume(
        self,
        topic: str,
        filter: Filter = None,
        config: ConsumerConfig | None = None,
        **options: Any,
    ) -> AsyncStream:
        """Return the messages of a queue as they come; see `ConsumerConfig` for the options.

        A message is acknowledged when the next one is asked for.
        """
        wanted = ConsumerConfig.of(config, filter=filter, **options)
        return AsyncStream(AsyncSource(self, topic, wanted))

    async def request(
        self,
        topic: str,
        payload: Any,
        *,
        timeout: timedelta = timedelta(seconds=30),
        reply_to: str | None = None,
        headers: dict[str, Any] | None = None,
        **options: Any,
    ) -> Message:
        """Publish a question and return the answer, or raise `RequestTimeout`.

        The answer comes by the queue `reply_to`; without one the client makes a queue of its own,
        which is dropped when it closes.
        """
        correlation_id = uuid4().hex
        queue = reply_to or await self._own_queue()
        source = AsyncSource(
            self, queue, ConsumerConfig(filter=F.msg.correlation_id == correlation_id, batch_size=1)
        )
        try:
            await self.publish(
                topic,
                payload,
                headers=headers,
                reply_to=queue,
                correlation_id=correlation_id,
                expires_in=timeout,
                **options,
            )
            batch = await source.fetch(1, timeout=timeout.total_seconds())
            if batch is None:
                raise RequestTimeout(
                    f"no reply from {topic} within {timeout.total_seconds():g} s",
                    hint="Is anybody consuming the queue, and answering by pgq.reply?",
                )
            await batch.ack()
            return batch[0]
        finally:
            await source.close()

    async def _own_queue(self) -> str:
        async with self._reply_lock:
            if self._reply_queue is None:
                name = f"reply-{uuid4().hex}"
                await self.create_queue(name, journal="failures", on_expiry="discard")
                self._reply_queue = name
            return self._reply_queue

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Conn]:
        conn = await self._take()
        try:
            yield conn
        finally:
            await self._give(conn)

    async def _take(self) -> Conn:
        """Return a connection: the one that was used last, if nobody has it, or the pool's."""
        with self._guard:
            self._takers += 1
            conn, self._spare = self._spare, None
        try:
            if conn is not None:
                try:
                    await _check(conn)
                    return conn
                except psycopg.Error:
                    await self._pool.putconn(conn)
            return await self._pool.getconn()
        except BaseException:
            with self._guard:
                self._takers -= 1
            raise

    async def _give(self, conn: Conn) -> None:
        """Keep the connection for the next call, unless somebody may be waiting for one."""
        with self._guard:
            self._takers -= 1
            keep = self._takers == 0 and self._spare is None and not self._closing
            if keep and conn.pgconn.transaction_status == TransactionStatus.IDLE:
                self._spare = conn
                return
        await self._pool.putconn(conn)

    async def _rows(
        self,
        statement: LiteralString,
        *parameters: Any,
        factory: Any = None,
        repeatable: bool = False,
    ) -> list[Any]:
        if statement is _sql.PUBLISH or statement is _sql.PUBLISH_BATCH:
            with self.breaker.guard(is_trouble):
                return await self._tried(statement, parameters, factory, repeatable)
        return await self._tried(statement, parameters, factory, repeatable)

    async def _tried(
        self, statement: LiteralString, parameters: Sequence[Any], factory: Any, repeatable: bool
    ) -> list[Any]:
        try:
            return await self._once(statement, parameters, factory)
        except psycopg.OperationalError as error:
            if not _may_repeat(error, repeatable):
                raise
        return await self._again(statement, parameters, factory, repeatable)

    async def _once(
        self, statement: LiteralString, parameters: Sequence[Any], factory: Any
    ) -> list[Any]:
        conn = await self._take()
        try:
            return await _run(conn, statement, parameters, factory)
        finally:
            await self._give(conn)

    async def _again(
        self, statement: LiteralString, parameters: Sequence[Any], factory: Any, repeatable: bool
    ) -> list[Any]:
        """Run a statement whose first attempt has failed, a few times if need be."""
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(lambda error: _may_repeat(error, repeatable)),
            wait=wait_random_exponential(multiplier=0.05, max=2),
            stop=stop_after_attempt(4),
            reraise=True,
        ):
            with attempt:
                return await self._once(statement, parameters, factory)
        raise AssertionError("the last attempt returns or raises")


async def connect_async(
    conninfo: str = "",
    *,
    pool_size: int = 10,
    timeout: timedelta = timedelta(seconds=10),
    breaker: CircuitBreaker | None = None,
    **options: Any,
) -> AsyncPooledClient:
    """Return a client with a pool of connections of its own; close it, or use it in a ``with``.

    :param conninfo: as libpq has it; what it leaves out comes from the ``PG*`` variables.
    :param pool_size: the most connections, besides the one that listens.
    :param timeout: how long a call may wait for a connection.
    :param breaker: a circuit breaker to share, or one with other limits.
    :param options: more parameters of psycopg's ``connect``.
    """
    client = AsyncPooledClient(
        conninfo, pool_size=pool_size, timeout=timeout, breaker=breaker, **options
    )
    return await client.open()


async def _run(
    conn: Conn,
    statement: LiteralString,
    parameters: Sequence[Any],
    factory: Any,
    loader: type[FastJsonbLoader] | None = None,
) -> list[Any]:
    kept = conn.kept if isinstance(conn, _Keeping) else {}
    cursor = kept.pop(factory, None) or conn.cursor(row_factory=factory or conn.row_factory)
    if loader is not None:
        cursor.adapters.register_loader("jsonb", loader)
    try:
        await cursor.execute(statement, parameters)
        rows: list[Any] = await cursor.fetchall()
    except psycopg.Error as error:
        if known := translated(error):
            raise known from error
        raise
    if len(rows) < _LONG_RESULT:
        kept[factory] = cursor
    return rows


async def _check(conn: Conn) -> None:
    """Raise if an idle connection is broken; asks the server only if it has said something."""
    poll = select.poll()
    poll.register(conn.pgconn.socket, select.POLLIN)
    if poll.poll(0):
        await AsyncConnectionPool.check_connection(conn)


def _may_repeat(error: BaseException, repeatable: bool) -> bool:
    if isinstance(error, psycopg.errors.QueryCanceled):
        return False
    if isinstance(error, psycopg.OperationalError) and error.sqlstate in _UNDONE:
        return True
    # Without a word of the server nobody knows whether the statement took effect.
    lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return repeatable and lost and not isinstance(error, PoolTimeout)


def _ids(ids: Sequence[int] | None) -> list[int] | None:
    return None if ids is None else list(ids)


def _text(text: str | None) -> str | None:
    """Return a text as PostgreSQL can store it."""
    return None if text is None else text.replace("\0", "\ufffd")


def _copied(draft: Draft, common: dict[str, Any], now: datetime) -> tuple[Any, ...]:
    return (
        draft.topic,
        Jsonb(draft.payload),
        Jsonb(common | draft.headers if draft.headers else common),
        draft.priority,
        None if draft.delay is None else now + draft.delay,
        None if draft.expires_in is None else now + draft.expires_in,
        draft.sender,
        draft.recipient,
        draft.reply_to,
        draft.correlation_id,
        draft.group_key,
        draft.dedup_key,
    )
