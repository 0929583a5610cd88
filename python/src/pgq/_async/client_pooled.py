"""A client with a pool of connections of its own."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, LiteralString, Self, Unpack
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg.rows import scalar_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from pgq._async.client import AsyncClient
from pgq._async.client_base import Conn, KeepingConnection, run
from pgq._async.listener import RESULTS, AsyncListener
from pgq._async.source import AsyncSource
from pgq._async.stream import AsyncStream
from pgq._shared import sql
from pgq._shared.aio import Event, Lock
from pgq._shared.arguments import check_numbers
from pgq._shared.log import notice
from pgq._shared.transient import is_transient
from pgq.consumers.config import ConsumerConfig
from pgq.durations import Duration, duration
from pgq.errors import PgqError, RequestTimeout
from pgq.filters import F, Filter
from pgq.message import Message
from pgq.options import PublishOptions, StreamOptions
from pgq.payloads.serializers import Payloads
from pgq.rows import Result
from pgq.transports.breaker import CircuitBreaker, breaker_or_none

__all__ = ["AsyncPooledClient", "connect_async"]

# SQLSTATEs after which the statement has certainly had no effect.
_UNDONE = frozenset(["40001", "40P01", "57P01", "57P02", "57P03"])


class _Borrower(AsyncClient):
    """A client on a pooled connection, whose notices `_adapt` already logs."""

    async def fetch_rows(
        self,
        statement: LiteralString,
        *parameters: Any,
        factory: Any = None,
        repeatable: bool = False,
    ) -> list[Any]:
        return await run(self._conn, statement, parameters, factory, self._loader)


class AsyncPooledClient(AsyncClient):
    """A client with its own connection pool; each call is a transaction of its own.

    `connect_async` returns such a client. `transaction` makes several calls one transaction. Calls
    that are safe to repeat are repeated when the connection fails. Publishing goes through a
    circuit breaker.

    :param conninfo, pool_size, timeout, breaker, types, serializer, options: as in `connect_async`.

    >>> async with await connect_async() as client:
    ...     await client.publish("orders", {"amount": 12})
    """

    #: How often consumers poll if the client cannot notify them; None to try notifications.
    poll_interval: timedelta | None = None

    def __init__(
        self,
        conninfo: str = "",
        *,
        pool_size: int = 10,
        timeout: Duration = timedelta(seconds=10),
        breaker: CircuitBreaker | None = None,
        types: Mapping[str, Any] | None = None,
        serializer: str | None = None,
        **options: Any,
    ) -> None:
        self._payloads = Payloads(types or {}, serializer)
        if not isinstance(conninfo, str):
            raise TypeError(
                "a connection string is needed here: to borrow a connection, use pgq.AsyncClient"
            )
        self.conninfo = conninfo
        self.breaker = breaker or breaker_or_none()
        self._options: dict[str, Any] = {"fallback_application_name": "pgq"} | options
        self._pooled = False
        self._pool: AsyncConnectionPool[Conn] = AsyncConnectionPool(
            conninfo,
            connection_class=KeepingConnection,
            kwargs=self._options | {"autocommit": True},
            min_size=1,
            max_size=pool_size,
            timeout=duration(timeout, "timeout").total_seconds(),
            # Seconds during which the pool reconnects with growing pauses. After that, the next
            # call connects again.
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
        """Connect, and raise the error if that fails; without `wait`, only begin to connect.

        :param wait: connect now; else the first call connects.

        >>> client = await AsyncPooledClient("postgresql://app@db/shop").open()
        """
        if wait:
            # Connect outside of the pool first: the pool raises a timeout without its cause.
            async with await self.connection() as conn:
                # A pooler reports another process id than the server does.
                cursor = conn.cursor(row_factory=scalar_row)
                await cursor.execute(sql.BACKEND_PID)
                self._pooled = await cursor.fetchone() != conn.info.backend_pid
        await self._pool.open(wait=wait)
        return self

    async def close(self) -> None:
        """Close all connections.

        >>> await client.close()
        """
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
        """Open a connection outside of the pool; the caller closes it.

        >>> async with await client.connection() as conn:
        ...     await conn.execute("select 1")
        """
        conn = await AsyncConnection.connect(self.conninfo, **self._options, autocommit=True)
        await self._adapt(conn)
        return conn

    async def _adapt(self, conn: Conn) -> None:
        """Set up a connection: log its notices; behind a pooler, prepare no statements."""
        conn.add_notice_handler(notice)
        if self._pooled and "prepare_threshold" not in self._options:
            conn.prepare_threshold = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncClient]:
        """Yield a client whose calls are one transaction.

        >>> async with client.transaction() as tx:
        ...     await tx.publish("orders", {"amount": 12})
        ...     await tx.publish("mails", {"text": "thank you"})
        """
        async with self._session() as conn, conn.transaction():
            borrower = _Borrower(
                conn, types=self._payloads.types, serializer=self._payloads.serializer
            )
            yield borrower

    @property
    def payloads(self) -> Payloads:
        """How payloads are checked and written."""
        return self._payloads

    @property
    def listener(self) -> AsyncListener:
        """The listener for notifications, shared by all consumers of this client."""
        if self._listener is None:
            self._listener = AsyncListener(self)
        return self._listener

    def consume(
        self,
        queue: str,
        filter: Filter = None,
        config: ConsumerConfig | None = None,
        **options: Unpack[StreamOptions],
    ) -> AsyncStream:
        """Return the messages of a queue as they arrive.

        In a loop, a message is acknowledged when the next one is asked for.

        :param queue: the name of the queue.
        :param filter: the messages to take; None for all.
        :param config: the options; `options` given by name override it.

        >>> async for message in client.consume("orders", F.type == "refund"):
        ...     print(message.payload)
        """
        wanted = ConsumerConfig.of(config, **options)
        if filter is not None:
            wanted = ConsumerConfig.of(wanted, filter=filter)
        return AsyncStream(AsyncSource(self, queue, wanted))

    async def request(
        self,
        topic: str,
        payload: Any,
        *,
        timeout: Duration = timedelta(seconds=30),
        reply_to: str | None = None,
        headers: dict[str, Any] | None = None,
        **options: Unpack[PublishOptions],
    ) -> Message:
        """Publish a request and return the reply, or raise `RequestTimeout`.

        :param topic: the topic of the request; its consumer replies by `reply`.
        :param payload: the payload of the request.
        :param timeout: how long to wait for the reply; the request expires after this time.
        :param reply_to: the queue that receives the reply. If None, the client creates a queue,
            and drops it when the client is closed.
        :param headers: the headers of the request.
        :param options: those of `publish`.

        >>> reply = await client.request("prices", {"article": 4711}, timeout="5s")
        >>> reply.payload
        {'price': 12}
        """
        timeout = duration(timeout, "timeout")
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

    async def wait(self, message_id: int, *, timeout: Duration = timedelta(seconds=30)) -> Result:
        """Wait until a message is done or dead in every queue; return the last row of `result`.

        Raises `RequestTimeout` after the timeout. A session that finishes, buries or cancels the
        message notifies this call.

        :param message_id: the id of the message.
        :param timeout: raise `RequestTimeout` after this time.

        >>> (await client.wait(41, timeout="1m")).result
        {'sum': 12}
        """
        check_numbers(message_id=message_id)
        seconds = duration(timeout, "timeout").total_seconds()
        deadline = time.monotonic() + seconds
        woken = Event()
        try:
            await self.listener.join(RESULTS, woken, str(message_id))
            await self.fetch_rows(
                sql.WAIT_RESULT, message_id, uuid4().hex, timedelta(seconds=seconds + 1)
            )
            while True:
                woken.clear()
                rows = await self.result(message_id)
                if rows and all(row.state in ("done", "dead") for row in rows):
                    return rows[-1]
                left = deadline - time.monotonic()
                if left <= 0:
                    raise RequestTimeout(
                        f"message {message_id} has not ended within {seconds:g} s",
                        hint="pgq.result(id) says where it is.",
                    )
                # Poll as well: an acknowledgement without a result does not notify.
                await woken.wait(min(left, 2.0 if self.listener.hears(RESULTS) else 0.2))
        finally:
            self.listener.leave(RESULTS, woken, str(message_id))

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
        """Return the connection that was used last if it is free, else one from the pool.

        Getting a connection from the pool adds 16 % to the client CPU of a call.
        """
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
        """Keep the connection for the next call, unless another call may wait for one."""
        with self._guard:
            self._takers -= 1
            keep = self._takers == 0 and self._spare is None and not self._closing
            if keep and conn.pgconn.transaction_status == TransactionStatus.IDLE:
                self._spare = conn
                return
        await self._pool.putconn(conn)

    async def fetch_rows(
        self,
        statement: LiteralString,
        *parameters: Any,
        factory: Any = None,
        repeatable: bool = False,
    ) -> list[Any]:
        if statement is sql.PUBLISH or statement is sql.PUBLISH_BATCH:
            with self.breaker.guard(is_transient):
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
            return await run(conn, statement, parameters, factory)
        finally:
            await self._give(conn)

    async def _again(
        self, statement: LiteralString, parameters: Sequence[Any], factory: Any, repeatable: bool
    ) -> list[Any]:
        """Repeat a statement whose first attempt has failed, up to four times."""
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
    timeout: Duration = timedelta(seconds=10),
    breaker: CircuitBreaker | None = None,
    types: Mapping[str, Any] | None = None,
    serializer: str | None = None,
    **options: Any,
) -> AsyncPooledClient:
    """Return a client with its own connection pool; close it, or use it in a ``with`` block.

    :param conninfo: a connection string of libpq; defaults come from the ``PG*`` variables.
    :param pool_size: the maximum size of the pool; one more connection listens.
    :param timeout: how long a call may wait for a connection.
    :param breaker: a circuit breaker to share, or one with other limits.
    :param types: a type for each topic; payloads published to the topic must have this type.
    :param serializer: the name of the serializer of payloads; None for plain JSON.
    :param options: more parameters of psycopg's ``connect``.

    >>> async with await connect_async("postgresql://app@db/shop") as client:
    ...     await client.publish("orders", {"amount": 12})
    """
    client = AsyncPooledClient(
        conninfo,
        pool_size=pool_size,
        timeout=timeout,
        breaker=breaker,
        types=types,
        serializer=serializer,
        **options,
    )
    return await client.open()


async def _check(conn: Conn) -> None:
    """Raise if an idle connection is broken; query the server only if its socket has data."""
    poll = select.poll()
    poll.register(conn.pgconn.socket, select.POLLIN)
    if poll.poll(0):
        await AsyncConnectionPool.check_connection(conn)


def _may_repeat(error: BaseException, repeatable: bool) -> bool:
    if isinstance(error, psycopg.errors.QueryCanceled):
        return False
    if isinstance(error, psycopg.OperationalError) and error.sqlstate in _UNDONE:
        return True
    # Without an SQLSTATE the connection was lost, and the statement may have taken effect.
    lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return repeatable and lost and not isinstance(error, PoolTimeout)
