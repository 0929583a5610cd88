# Written by unasync.py from consumer_async.py: change that one.

"""A consumer that calls a handler for each message."""

from __future__ import annotations

import threading
import time
import traceback as tracebacks
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pgq import _trace
from pgq._log import Level, debugging, log
from pgq._threads import Event, Queue, Task, caller, on_signals
from pgq.batch import Batch
from pgq.config import ConsumerConfig, Reject, Retry
from pgq.message import Message
from pgq.source import Source

if TYPE_CHECKING:
    from pgq.client import PooledClient

__all__ = ["Consumer"]


class _Work:
    """A batch whose messages are with several handlers."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.lock = threading.Lock()
        self.pending = len(batch)
        self.done: list[Message] = []
        self.flushed = time.monotonic()
        # Asked once for all its messages: it takes longer than to call a handler.
        self.traced = _trace.is_set_up()
        self.debugging = debugging()


class Consumer:
    """Calls a handler for each message of a queue.

    A handler that returns has done its message. One that raises has not: the message is retried
    by the queue's policy (`Retry` chooses the delay, `Reject` makes it a dead letter), and no other
    message is affected. The lease is renewed while a handler runs.

    `run` consumes until `stop` or, in the main thread, until SIGTERM or SIGINT: handlers that run
    may finish, what nobody has begun goes back. As a context manager it consumes beside the block.

    The options are those of `ConsumerConfig`.
    """

    def __init__(
        self,
        client: PooledClient,
        topic: str,
        handler: Callable[[Message], Any],
        config: ConsumerConfig | None = None,
        **options: Any,
    ) -> None:
        self.topic = topic
        self.config = ConsumerConfig.of(config, **options)
        #: How many messages were handled, and how many handlers have raised.
        self.handled = 0
        self.failed = 0
        self._source = Source(client, topic, self.config)
        self._call = caller(handler)
        self._ack_delay = self.config.ack_delay.total_seconds()
        self._lock = threading.Lock()
        self._queue: Queue[tuple[_Work, Message] | None] = Queue()
        self._room = Event()
        self._running: Task | None = None
        self._closed = False

    def run(self, *, signals: bool = True) -> None:
        """Consume until stopped."""
        with on_signals(self.stop, signals):
            self.start()
            try:
                self.wait()
            finally:
                self.close()

    def start(self) -> Self:
        """Begin to consume beside the caller."""
        if self._running is None:
            log("INFO", "consumer_started", "consuming from %s", self.topic, queue=self.topic)
            self._running = Task(f"pgq-consumer-{self.topic}", self._consume)
        return self

    def wait(self) -> None:
        """Wait until the consumer has ended; raises what has ended it, if it was not `stop`."""
        running = self._running
        if running is None:
            return
        # Waiting in small steps lets a thread notice signals.
        while not self._source.stopping.is_set():
            if running.join(0.2):
                return
        if not running.join(self.config.grace.total_seconds()):
            log(
                *("WARNING", "handler_too_slow"),
                *("a handler of %s took too long: its message goes back", self.topic),
                queue=self.topic,
                grace=self.config.grace.total_seconds(),
            )
            running.cancel()

    def stop(self) -> None:
        """Take nothing more; what is being handled may finish."""
        self._source.stop()
        self._room.set()

    def close(self) -> None:
        """Stop, wait for what is being handled, and give the rest back."""
        self.stop()
        try:
            self.wait()
        finally:
            self._source.close()
            if not self._closed:
                self._closed = True
                log(
                    *("INFO", "consumer_stopped", "no longer consuming from %s", self.topic),
                    queue=self.topic,
                    handled=self.handled,
                    failed=self.failed,
                )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # How

    def _consume(self) -> None:
        workers: list[Task] = []
        if self.config.concurrency > 1:
            workers = [
                Task(f"pgq-worker-{self.topic}-{number}", self._work)
                for number in range(self.config.concurrency)
            ]
        try:
            done: Batch | None = None
            while batch := self._source.fetch(done=done):
                self._source.hold(batch)
                if workers:
                    self._distribute(batch)
                else:
                    done = self._handle_all(batch)
            for _ in workers:
                self._queue.put(None)
            for worker in workers:
                worker.join()
        except BaseException:
            self.stop()
            for worker in workers:
                worker.cancel()
            raise

    # One after the other

    def _handle_all(self, batch: Batch) -> Batch | None:
        """Return the batch if it is done and only needs its ack, which the next claim can bring."""
        work = _Work(batch)
        stopping = self._source.stopping
        whole = False
        try:
            for message in batch.messages:
                if stopping.is_set():
                    break
                if self._handle(work, message):
                    self.handled += 1
                    work.done.append(message)
                    if time.monotonic() - work.flushed > self._ack_delay:
                        self._flush(work)
            whole = len(work.done) == len(batch.left)
        finally:
            if whole:
                self._source.drop(batch)
            else:
                self._finish(work)
        return batch if whole else None

    # Side by side

    def _distribute(self, batch: Batch) -> None:
        work = _Work(batch)
        for message in batch.messages:
            self._queue.put((work, message))
        while self._queue.qsize() >= self.config.concurrency:
            self._room.clear()
            if self._source.stopping.is_set():
                return
            if self._queue.qsize() >= self.config.concurrency:
                self._room.wait()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            work, message = item
            if self._queue.qsize() < self.config.concurrency:
                self._room.set()
            # What nobody has begun when the consumer stops stays in its batch, and goes back.
            begun = not self._source.stopping.is_set()
            ended = False
            try:
                ended = begun and self._handle(work, message)
            finally:
                self._note(work, message, ended)

    def _note(self, work: _Work, message: Message, handled: bool) -> None:
        with work.lock:
            work.pending -= 1
            if handled:
                work.done.append(message)
                with self._lock:
                    self.handled += 1
            last = work.pending == 0
            late = time.monotonic() - work.flushed > self._ack_delay
        if last:
            self._finish(work)
        elif late:
            self._flush(work)

    # Each

    def _handle(self, work: _Work, message: Message) -> bool:
        """Call the handler; return whether the message is done and only needs its ack."""
        batch, settle = work.batch, self._source.settle
        began = time.monotonic()
        try:
            if work.traced or "traceparent" in message.headers:
                with _trace.processing(self.topic, message):
                    self._call(message)
            else:
                self._call(message)
        except Retry as error:
            self._count_failure()
            self._tell("INFO", "message_retried", "retries", batch, message, began)
            settle(batch.nack, message, delay=error.delay, error=str(error) or None)
        except Reject as error:
            self._count_failure()
            self._tell("INFO", "message_rejected", "rejects", batch, message, began)
            settle(batch.bury, message, error=str(error) or None)
        except Exception as error:
            self._count_failure()
            self._tell(
                "ERROR", "message_failed", "failed with", batch, message, began, exc_info=True
            )
            settle(
                batch.nack,
                message,
                error=f"{type(error).__name__}: {error}",
                details={"traceback": "".join(tracebacks.format_exception(error))[-4000:]},
            )
        else:
            if work.debugging:
                self._tell("DEBUG", "message_handled", "has done", batch, message, began)
            return True
        return False

    def _tell(
        self,
        level: Level,
        event: str,
        what: str,
        batch: Batch,
        message: Message,
        began: float,
        exc_info: bool = False,
    ) -> None:
        log(
            *(level, event, "the handler of %s %s message %s", self.topic, what, message.id),
            exc_info=exc_info,
            queue=self.topic,
            topic=message.topic,
            message_id=message.id,
            attempt=message.attempt,
            lease_id=batch.lease_id,
            duration=round(time.monotonic() - began, 6),
        )

    def _count_failure(self) -> None:
        with self._lock:
            self.failed += 1

    def _flush(self, work: _Work) -> None:
        with work.lock:
            done, work.done = work.done, []
            work.flushed = time.monotonic()
        if done:
            whole = len(done) == len(work.batch.left)
            self._source.settle(work.batch.ack, None if whole else done)

    def _finish(self, work: _Work) -> None:
        """Acknowledge what is done and give back what is left of the batch."""
        self._source.drop(work.batch)
        self._flush(work)
        if work.batch.left:
            self._source.settle(work.batch.release)
