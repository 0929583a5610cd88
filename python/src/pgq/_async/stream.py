"""The messages of a queue as they arrive, for a loop."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from pgq._async.batch import AsyncBatch
from pgq._async.source import AsyncSource
from pgq.durations import Duration
from pgq.message import Message

__all__ = ["AsyncStream"]


class AsyncStream:
    """Messages one by one; each is acknowledged when you ask for the next.

    If the loop may be left early, use the stream in a ``with`` block. If the block ends without an
    exception, the current message is acknowledged; if it raises, the current message is refused
    with the error. The messages after it are released without counting the attempt. Without a
    ``with`` block, leaving the loop early refuses the current message.
    """

    def __init__(self, source: AsyncSource) -> None:
        self._source = source
        self._batch: AsyncBatch | None = None
        self._current: Message | None = None
        self._done: list[Message] = []
        self._flushed = 0.0
        self._managed = False

    async def __aiter__(self) -> AsyncIterator[Message]:
        delay = self._source.config.ack_delay.total_seconds()
        try:
            while batch := await self._source.fetch(done=self._batch):
                self._batch, self._done = batch, []
                self._flushed = time.monotonic()
                self._source.hold(batch)
                for message in batch.messages:
                    if self._source.stopping.is_set():
                        break
                    self._current = message
                    yield message
                    if self._current is not None:
                        self._current = None
                        self._done.append(message)
                    if time.monotonic() - self._flushed > delay:
                        await self._flush()
                if len(self._done) == len(batch.left):
                    self._source.drop(batch)  # the next claim acknowledges the batch
                else:
                    await self._finish()
        finally:
            if not self._managed:
                await self._end("the consumer left its loop")

    async def ack(self) -> None:
        """Acknowledge the current message now."""
        batch, message = self._in_hand()
        await self._source.settle(batch.ack, message)

    async def nack(
        self, *, delay: Duration | None = None, error: str | None = None, details: Any = None
    ) -> None:
        """Refuse the current message: it is retried, or becomes a dead letter.

        :param delay: the delay before the retry; None for the queue's backoff.
        """
        batch, message = self._in_hand()
        await self._source.settle(batch.nack, message, delay=delay, error=error, details=details)

    async def bury(self, *, error: str | None = None, details: Any = None) -> None:
        """Make the current message a dead letter."""
        batch, message = self._in_hand()
        await self._source.settle(batch.bury, message, error=error, details=details)

    async def release(self, *, delay: Duration = timedelta(0)) -> None:
        """Release the current message without counting the attempt."""
        batch, message = self._in_hand()
        await self._source.settle(batch.release, message, delay=delay)

    def stop(self) -> None:
        """End the loop after the current message; the messages after it are released."""
        self._source.stop()

    async def close(self) -> None:
        """End the stream; release the remaining messages, including the current one."""
        await self._end(None)

    async def __aenter__(self) -> Self:
        self._managed = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None and self._current is not None:
            self._done.append(self._current)
            self._current = None
        await self._end(f"{type(exc).__name__}: {exc}" if isinstance(exc, Exception) else None)

    def _in_hand(self) -> tuple[AsyncBatch, Message]:
        """Return the batch and the current message, which the caller now ends."""
        if self._batch is None or self._current is None:
            raise RuntimeError("no message is in hand")
        message, self._current = self._current, None
        return self._batch, message

    async def _flush(self) -> None:
        done, self._done = self._done, []
        self._flushed = time.monotonic()
        batch = self._batch
        if batch is not None and batch.left and done:
            whole = len(done) == len(batch.left)
            await self._source.settle(batch.ack, None if whole else done)

    async def _finish(self) -> None:
        """Acknowledge the handled messages of the batch and release the others."""
        await self._flush()
        batch, self._batch = self._batch, None
        if batch is not None:
            self._source.drop(batch)
            if batch.left:
                await self._source.settle(batch.release)

    async def _end(self, error: str | None) -> None:
        if error is not None and self._current is not None:
            batch, message = self._in_hand()
            await self._source.settle(batch.nack, message, error=error)
        await self._finish()
        await self._source.close()
