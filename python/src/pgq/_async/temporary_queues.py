"""Queues that end with the process that created them."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg

from pgq._shared.aio import Event, Lock, Task
from pgq._shared.log import log, reason
from pgq._shared.owner import myself
from pgq.errors import PgqError, QueueNotFound
from pgq.filters import Filter

if TYPE_CHECKING:
    from pgq._async.client_pooled import AsyncPooledClient

__all__ = ["AsyncTemporaryQueues"]

# pgq.maintain() finds temporary queues by both names, and drops those whose owner has ended.
_PREFIX = "temporary."
_CONSUMER = "owner"
# An owner renews its ownership; after this time without renewal the ownership has ended.
_TIMEOUT = timedelta(seconds=60)


class AsyncTemporaryQueues:
    """Creates queues, renews their ownership, and drops them.

    Maintenance drops the queues of processes that were killed.
    """

    def __init__(self, client: AsyncPooledClient) -> None:
        self._client = client
        self._owner = myself()
        self._lock = Lock()
        self._names: set[str] = set()
        self._over = Event()
        self._beat: Task | None = None

    async def create(self, subscriber: str, pattern: str, filter: Filter) -> str:
        """Create a queue that receives the topics of a pattern; return its name."""
        name = f"{_PREFIX}{subscriber}.{uuid4().hex[:12]}"
        async with self._lock:
            async with self._client.transaction() as tx:
                # One transaction, so that no process sees the queue without an owner.
                await tx.subscribe(name, pattern, filter)
                await tx.stream_begin(name, _CONSUMER, self._owner, _TIMEOUT)
            self._names.add(name)
            if self._beat is None:
                self._beat = Task("pgq-temporary", self._keep)
        return name

    async def drop(self, name: str) -> None:
        """Drop a queue with its messages."""
        async with self._lock:
            self._names.discard(name)
            with suppress(QueueNotFound):
                await self._client.drop_queue(name, force=True)

    async def close(self) -> None:
        """Drop all queues."""
        self._over.set()
        if self._beat is not None:
            await self._beat.join()
        for name in list(self._names):
            await self.drop(name)

    async def _keep(self) -> None:
        while not await self._over.wait(_TIMEOUT.total_seconds() / 3):
            async with self._lock:
                for name in list(self._names):
                    await self._renew(name)

    async def _renew(self, name: str) -> None:
        try:
            await self._client.stream_begin(name, _CONSUMER, self._owner, _TIMEOUT)
        except (psycopg.Error, PgqError) as error:
            log("DEBUG", "name_not_renewed", "%s: %s", name, reason(error), queue=name)
