# Written by unasync.py from stream_async.py: change that one.

"""The messages of a queue as they come, for a loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from pgq.batch import Batch
from pgq.message import Message
from pgq.source import Source

__all__ = ["Stream"]


class Stream:
    """Messages one by one; each is acknowledged when the next one is asked for.

    Use it in a ``with`` block, if the loop may be left early: without an exception the message in
    hand is acknowledged, after one it is refused with the error; those behind it go back unharmed.
    Without such a block the message in hand is refused when the loop is left early.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._batch: Batch | None = None
        self._current: Message | None = None
        self._done: list[Message] = []
        self._flushed = 0.0
        self._managed = False

    def __iter__(self) -> Iterator[Message]:
        delay = self._source.config.ack_delay.total_seconds()
        try:
            while batch := self._source.fetch(done=self._batch):
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
                        self._flush()
                if len(self._done) == len(batch.left):
                    self._source.drop(batch)  # the next claim acknowledges it
                else:
                    self._finish()
        finally:
            if not self._managed:
                self._end("the consumer left its loop")

    def ack(self) -> None:
        """Acknowledge the message in hand now."""
        batch, message = self._in_hand()
        self._source.settle(batch.ack, message)

    def nack(
        self, *, delay: timedelta | None = None, error: str | None = None, details: Any = None
    ) -> None:
        """Refuse the message in hand: it is retried, or becomes a dead letter."""
        batch, message = self._in_hand()
        self._source.settle(batch.nack, message, delay=delay, error=error, details=details)

    def bury(self, *, error: str | None = None, details: Any = None) -> None:
        """Make the message in hand a dead letter."""
        batch, message = self._in_hand()
        self._source.settle(batch.bury, message, error=error, details=details)

    def release(self, *, delay: timedelta = timedelta(0)) -> None:
        """Give the message in hand back without counting the attempt."""
        batch, message = self._in_hand()
        self._source.settle(batch.release, message, delay=delay)

    def stop(self) -> None:
        """Let the loop end after the message in hand; those behind it go back."""
        self._source.stop()

    def close(self) -> None:
        """End, and give back what is left."""
        self._end(None)

    def __enter__(self) -> Self:
        self._managed = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None and self._current is not None:
            self._done.append(self._current)
            self._current = None
        self._end(f"{type(exc).__name__}: {exc}" if isinstance(exc, Exception) else None)

    def _in_hand(self) -> tuple[Batch, Message]:
        if self._batch is None or self._current is None:
            raise RuntimeError("no message is in hand")
        message, self._current = self._current, None
        return self._batch, message

    def _flush(self) -> None:
        done, self._done = self._done, []
        self._flushed = time.monotonic()
        batch = self._batch
        if batch is not None and batch.left and done:
            whole = len(done) == len(batch.left)
            self._source.settle(batch.ack, None if whole else done)

    def _finish(self) -> None:
        """Acknowledge what is done and give back what is left of the batch."""
        self._flush()
        batch, self._batch = self._batch, None
        if batch is not None:
            self._source.drop(batch)
            if batch.left:
                self._source.settle(batch.release)

    def _end(self, error: str | None) -> None:
        if error is not None and self._current is not None:
            batch, message = self._in_hand()
            self._source.settle(batch.nack, message, error=error)
        self._finish()
        self._source.close()
