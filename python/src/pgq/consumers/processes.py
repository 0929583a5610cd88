"""Consumers in several processes, for CPU-bound handlers."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from types import FrameType
from typing import Any, Unpack

import psycopg

from pgq._shared.log import log
from pgq._shared.threads import caller
from pgq._shared.transient import is_transient
from pgq._sync.client_pooled import connect
from pgq._sync.consumer import Consumer
from pgq.errors import PgqError
from pgq.message import Message
from pgq.options import ConsumerOptions

__all__ = ["run_processes"]

_CHECK_SECONDS = 0.2
_RESTART_SECONDS = 1.0
# The exit code of a process that failed permanently, so that it must not be replaced.
_HOPELESS = 78


def run_processes(
    processes: int,
    conninfo: str,
    queue: str,
    handler: Callable[[Message], Any],
    **options: Unpack[ConsumerOptions],
) -> None:
    """Consume in several processes until SIGTERM or SIGINT; replace one that dies.

    A process that ends by itself, because of `drain`, is not replaced. Returns when all processes
    have ended. Raises `PgqError` if the queue is missing, the filter is wrong, or a right is
    missing.

    :param processes: the number of processes.
    :param conninfo: a connection string of libpq.
    :param queue: the name of the queue.
    :param handler: a function of a module, so that the processes can import it.
    :param options: those of `ConsumerConfig`.

    >>> run_processes(4, "postgresql://app@db/shop", "orders", shop.handle_order)
    """
    caller(handler)  # raises an error about the handler here, instead of in every process
    if processes < 1:
        raise ValueError("at least one process is needed")
    context = multiprocessing.get_context("spawn")
    stopping = threading.Event()
    errors = context.SimpleQueue()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    def begin() -> BaseProcess:
        process = context.Process(target=_consume, args=(conninfo, queue, handler, options, errors))
        process.start()
        return process

    main = threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, stop)
        for number in ((signal.SIGTERM, signal.SIGINT) if main else ())
    }
    running = [begin() for _ in range(processes)]
    try:
        while not stopping.is_set() and any(process.exitcode != 0 for process in running):
            time.sleep(_CHECK_SECONDS)
            for index, process in enumerate(running):
                if process.exitcode == _HOPELESS and not stopping.is_set():
                    raise PgqError(f"the workers of {queue} cannot consume: {errors.get()}")
                if process.exitcode and not stopping.is_set():
                    log(
                        "WARNING",
                        "worker_ended",
                        "a worker of %s ended with %s",
                        queue,
                        process.exitcode,
                        queue=queue,
                        code=process.exitcode,
                    )
                    time.sleep(_RESTART_SECONDS)
                    running[index] = begin()
    finally:
        for process in running:
            if process.is_alive():
                process.terminate()
        for process in running:
            process.join()
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def _consume(
    conninfo: str,
    queue: str,
    handler: Callable[[Message], Any],
    options: dict[str, Any],
    errors: SimpleQueue[str],
) -> None:
    try:
        with connect(conninfo) as client:
            Consumer(client, queue, handler, **options).run()
    except (PgqError, psycopg.Error) as error:
        if is_transient(error):
            raise
        errors.put(str(error))
        sys.exit(_HOPELESS)
