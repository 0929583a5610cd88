# Written by unasync.py from _async/consumer.py: change that one.

"""A consumer that calls a handler for each message."""

from __future__ import annotations

import threading
import time
import traceback as tracebacks
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from pgq._shared import trace
from pgq._shared.log import debugging, log, reason
from pgq._shared.owner import process
from pgq._shared.threads import Event, Queue, Task, caller, on_signals
from pgq._sync.batch import Batch
from pgq._sync.failure_log import FailureLog
from pgq._sync.source import Source
from pgq.consumers.config import ConsumerConfig, Reject, Retry
from pgq.consumers.handler import name_of
from pgq.errors import HandlerTimeout
from pgq.message import Message
from pgq.options import ConsumerOptions

if TYPE_CHECKING:
    from pgq._sync.client_pooled import PooledClient

__all__ = ["Consumer"]

# How long `start` waits for the first claim. A later error is logged and kept in `error`.
_START_SECONDS = 5.0


class _Work:
    """A batch whose messages one or several workers handle."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.lock = threading.Lock()
        self.pending = len(batch)
        self.begun: set[int] = set()
        #: True: the messages that no worker has begun are released, so none may begin one.
        self.closed = False
        self.done: list[Message] = []
        self.flushed = time.monotonic()
        # Read once per batch: reading these settings takes longer than calling a handler.
        self.traced = trace.is_set_up()
        self.debugging = debugging()


class _Worker:
    """A thread or task that calls the handler, and its current message."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.work: _Work | None = None
        self.message: Message | None = None
        self.began = 0.0
        #: True: the handler took too long. Its message has failed; another worker took over.
        self.replaced = False


class _Replaced(BaseException):
    """Ends a worker that another one has replaced."""


class Consumer:
    """Calls a handler for each message of a queue.

    When the handler returns, its message is acknowledged. When it raises, the message is retried by
    the queue's policy, and no other message is affected. `Retry` chooses the delay; `Reject` makes
    the message a dead letter. The lease is extended while a handler runs.

    A handler that takes longer than `handler_timeout` fails. Its message is retried, and the
    messages of the batch that no worker has begun are released. A task is then cancelled. A thread
    cannot be cancelled: its result is ignored.

    `run` consumes until `stop` or, in the main thread, until SIGTERM or SIGINT. Running handlers
    may finish; messages that no worker has begun are released. As a context manager the consumer
    works in the background while the block runs.

    A consumer ends if its queue is missing or its filter is wrong. `start` raises an error that
    occurs immediately. A later error is logged, kept in `error`, and raised by `wait` and `close`.

    :param client: the result of `connect`.
    :param queue: the name of the queue.
    :param handler: is called with each message. A coroutine function is awaited. A plain function
        is called in a thread; if it returns an awaitable, that is awaited.
    :param config: the options; `options` given by name override it.

    >>> def handle(message):
    ...     print(message.payload)
    >>> Consumer(client, "orders", handle, concurrency=4).run()
    """

    def __init__(
        self,
        client: PooledClient,
        queue: str,
        handler: Callable[[Message], Any],
        config: ConsumerConfig | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.queue = queue
        self.config = ConsumerConfig.of(config, **options)
        #: How many messages were handled, and how many handlers have raised.
        self.handled = 0
        self.failed = 0
        #: The error that ended the consumer, if any.
        self.error: BaseException | None = None
        self._source = Source(client, queue, self.config)
        self._source.overdue = self._end_overdue
        self._failures = FailureLog(client, queue)
        self._call = caller(handler)
        self._about = {"handler": name_of(handler), "process": process()}
        self._ack_delay = self.config.ack_delay.total_seconds()
        limit = self.config.handler_timeout
        self._limit = None if limit is None else limit.total_seconds()
        self._lock = threading.Lock()
        self._queue: Queue[tuple[_Work, Message] | None] = Queue()
        self._room = Event()
        self._running: Task | None = None
        self._workers: list[_Worker] = []
        self._watcher: Task | None = None
        self._over = Event()
        self._closed = False

    def run(self, *, signals: bool = True) -> None:
        """Consume until `stop`, or until SIGTERM or SIGINT; raise the error that ended it.

        :param signals: False leaves the signal handlers as they are.
        """
        with on_signals(self.stop, signals):
            self.start()
            try:
                self.wait()
            finally:
                self.close()

    def start(self) -> Self:
        """Begin to consume in the background; raise an error that makes that impossible.

        Returns after the first claim, after a transient error, or after five seconds.
        """
        if self._running is not None:
            return self
        log("INFO", "consumer_started", "consuming from %s", self.queue, queue=self.queue)
        self._begin()
        self._source.tried.wait(_START_SECONDS)
        if self.error is not None:
            try:
                self.close()  # raises the error
            finally:
                self._running = None  # a later `wait` or `close` does not raise it again
        return self

    @property
    def running(self) -> bool:
        """Whether the consumer runs."""
        return self._running is not None and self.error is None and not self._running.done

    def wait(self) -> None:
        """Wait until the consumer has ended; raise the error that ended it, if any."""
        if self._running is None:
            return
        # Waiting in small steps lets a thread notice signals.
        while not self._source.stopping.is_set():
            running = self._running
            if running.join(0.2) and running is self._running:
                return
        if not self._running.join(self.config.grace.total_seconds()):
            log(
                "WARNING",
                "handler_too_slow",
                "a handler of %s took too long: its message will be delivered again",
                self.queue,
                queue=self.queue,
                grace=self.config.grace.total_seconds(),
            )
            self._running.cancel()

    def stop(self) -> None:
        """Claim nothing more; running handlers may finish."""
        self._source.stop()
        self._room.set()

    def close(self) -> None:
        """Stop, wait for running handlers, and release the other messages."""
        self.stop()
        try:
            self.wait()
        finally:
            self._over.set()
            if self._watcher is not None:
                self._watcher.join()
            self._source.close()
            if not self._closed:
                self._closed = True
                log(
                    "INFO",
                    "consumer_stopped",
                    "no longer consuming from %s",
                    self.queue,
                    queue=self.queue,
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

    # Implementation

    def _begin(self) -> None:
        """Start the task that claims; with a concurrency of 1, it also calls the handler."""
        worker = _Worker()
        if self.config.concurrency == 1:
            self._workers = [worker]
        worker.task = self._running = Task(
            f"pgq-consumer-{self.queue}", partial(self._consume, worker)
        )

    def _start_worker(self, number: int) -> _Worker:
        """Start a worker, which handles claimed messages."""
        worker = _Worker()
        worker.task = Task(f"pgq-worker-{self.queue}-{number}", partial(self._work, worker))
        return worker

    def _consume(self, worker: _Worker) -> None:
        try:
            if self.config.concurrency > 1:
                self._consume_together()
            else:
                self._consume_alone(worker)
        except BaseException as error:
            if worker.replaced:
                return
            self._fail(error)
            raise
        finally:
            self._source.tried.set()

    def _fail(self, error: BaseException) -> None:
        """Record the error that ended the consumer, unless it was stopped."""
        if not self._source.stopping.is_set() and self.error is None:
            self.error = error
            log(
                "ERROR",
                "consumer_died",
                "the consumer of %s has ended: %s",
                self.queue,
                reason(error) or type(error).__name__,
                queue=self.queue,
                sqlstate=getattr(error, "sqlstate", None),
            )
        self.stop()

    # One worker

    def _consume_alone(self, worker: _Worker) -> None:
        done: Batch | None = None
        while batch := self._source.fetch(done=done):
            self._source.hold(batch)
            self._watch()
            done = self._handle_all(worker, batch)

    def _handle_all(self, worker: _Worker, batch: Batch) -> Batch | None:
        """Handle a batch; return it if all succeeded, so that the next claim acknowledges it."""
        work = _Work(batch)
        stopping = self._source.stopping
        whole = False
        try:
            for message in batch.messages:
                if stopping.is_set():
                    break
                work.begun.add(message.id)
                if self._handle(worker, work, message):
                    self.handled += 1
                    work.done.append(message)
                    if time.monotonic() - work.flushed > self._ack_delay:
                        self._flush(work)
            whole = len(work.done) == len(batch.left)
        finally:
            if whole:
                self._source.drop(batch)
            elif not worker.replaced:
                self._finish(work)
        return batch if whole else None

    # Several workers

    def _consume_together(self) -> None:
        self._workers = [self._start_worker(number) for number in range(self.config.concurrency)]
        try:
            try:
                while batch := self._source.fetch():
                    self._source.hold(batch)
                    self._watch()
                    self._distribute(batch)
            finally:
                for _ in self._workers:
                    self._queue.put(None)
            for index in range(self.config.concurrency):
                # Read the task again in every round: the worker may have been replaced.
                while (task := self._workers[index].task) is not None and not task.join(0.2):
                    pass
        except BaseException:
            for worker in self._workers:
                if worker.task is not None:
                    worker.task.cancel()
            raise

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

    def _work(self, worker: _Worker) -> None:
        try:
            while (item := self._queue.get()) is not None:
                work, message = item
                if self._queue.qsize() < self.config.concurrency:
                    self._room.set()
                ended = False
                try:
                    ended = self._may_begin(work, message) and self._handle(worker, work, message)
                finally:
                    if not worker.replaced:
                        self._note(work, message, ended)
        except BaseException as error:
            if worker.replaced:
                return
            self._fail(error)
            raise

    def _may_begin(self, work: _Work, message: Message) -> bool:
        """Whether to handle a message; if not, it is released with its batch."""
        if self._source.stopping.is_set():
            return False
        with work.lock:
            if not work.closed:
                work.begun.add(message.id)
            return not work.closed

    def _note(self, work: _Work, message: Message, handled: bool) -> None:
        """Record the end of a handler; acknowledge if the batch is done or `ack_delay` is over."""
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

    # One message

    def _handle(self, worker: _Worker, work: _Work, message: Message) -> bool:
        """Call the handler; return whether it succeeded, so that the message needs an ack."""
        began = time.monotonic()
        # Set `began` before `message`: the watcher thread reads `message` first.
        worker.began = began
        worker.work = work
        worker.message = message
        error: BaseException | None = None
        try:
            if work.traced or "traceparent" in message.headers:
                with trace.processing(self.queue, message):
                    self._call(message)
            else:
                self._call(message)
        except (Exception, SystemExit) as raised:
            error = raised
        with self._lock:
            worker.message = None
            if worker.replaced:
                raise _Replaced
        if error is not None:
            self._refuse(work, message, error, began)
            return False
        if work.debugging:
            log(
                "DEBUG",
                "message_handled",
                "the handler of %s has done message %s",
                self.queue,
                message.id,
                **self._failures.fields(message, began),
            )
        return True

    def _refuse(
        self, work: _Work, message: Message, error: BaseException, began: float, stack: str = ""
    ) -> None:
        """Refuse a message whose handler has raised or takes too long."""
        with self._lock:
            self.failed += 1
        batch, settle = work.batch, self._source.settle
        details: dict[str, Any] = dict(self._about)
        if isinstance(error, Reject):
            settle(batch.bury, message, error=str(error) or None, details=details)
            self._failures.log_rejected(message, began)
        elif isinstance(error, Retry):
            settle(
                batch.nack, message, delay=error.delay, error=str(error) or None, details=details
            )
            self._failures.log_retried(message, began, error.delay)
        else:
            trace = stack or "".join(tracebacks.format_exception(error))
            details["traceback"] = trace[-4000:]
            text = f"{type(error).__name__}: {error}"
            settle(batch.nack, message, error=text, details=details)
            self._failures.log_failed(message, began, error)

    # Handlers that take too long

    def _watch(self) -> None:
        """Start the task that checks for handlers that take too long."""
        if self._watcher is None and self._limit is not None:
            self._watcher = Task(f"pgq-watcher-{self.queue}", self._check_handlers)

    def _check_handlers(self) -> None:
        limit = self._limit or 0.0
        while not self._over.wait(min(max(limit / 10, 0.02), 5.0)):
            for index, worker in enumerate(self._workers):
                if worker.message is not None and time.monotonic() - worker.began > limit:
                    try:
                        self._replace(index, worker, limit)
                    except Exception as error:
                        self._fail(error)

    def _end_overdue(self, batch: Batch, why: str) -> None:
        """Fail the messages being handled: the queue does not extend the lease any more."""
        for index, worker in enumerate(self._workers):
            if worker.work is not None and worker.work.batch is batch:
                self._replace(index, worker, 0.0, why)

    def _replace(self, index: int, worker: _Worker, limit: float, why: str | None = None) -> None:
        """Fail the message of a worker, and start another worker."""
        with self._lock:
            message, work, task = worker.message, worker.work, worker.task
            if message is None or work is None or task is None:
                return
            if time.monotonic() - worker.began <= limit:
                return  # the worker already handles another message
            worker.replaced = True
        stack = task.stack
        task.abandon()
        error = HandlerTimeout(why or f"the handler took longer than {limit:g} s")
        with work.lock:
            work.closed = True
            left = [one for one in work.batch.left if one.id not in work.begun]
        self._refuse(work, message, error, worker.began, stack)
        if left:
            self._source.settle(work.batch.release, left)
        if self.config.concurrency == 1:
            self._finish(work)
            if not self._source.stopping.is_set():
                self._begin()
        else:
            self._note(work, message, False)
            self._workers[index] = self._start_worker(index)

    def _flush(self, work: _Work) -> None:
        """Acknowledge the handled messages of a batch."""
        with work.lock:
            done, work.done = work.done, []
            work.flushed = time.monotonic()
        if done:
            whole = len(done) == len(work.batch.left)
            self._source.settle(work.batch.ack, None if whole else done)

    def _finish(self, work: _Work) -> None:
        """Acknowledge the handled messages of the batch and release the others."""
        self._source.drop(work.batch)
        self._flush(work)
        if work.batch.left:
            self._source.settle(work.batch.release)
