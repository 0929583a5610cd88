"""Consumers in processes of their own, for handlers that keep a processor busy."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from pgq._log import log
from pgq.client import connect
from pgq.consumer import Consumer
from pgq.message import Message

__all__ = ["run_processes"]

_LOOK_SECONDS = 0.2
_RESTART_SECONDS = 1.0


def run_processes(
    processes: int,
    conninfo: str,
    topic: str,
    handler: Callable[[Message], Any],
    **options: Any,
) -> None:
    """Consume in so many processes until SIGTERM or SIGINT; one that dies is replaced.

    One that ends by itself (told to `drain`, it has found nothing more) is not; when all have, this
    returns. The handler is a function of a module, because the processes have to find it; the
    options are those of `ConsumerConfig`.
    """
    if processes < 1:
        raise ValueError("at least one process is needed")
    context = multiprocessing.get_context("spawn")
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    def begin() -> BaseProcess:
        process = context.Process(target=_consume, args=(conninfo, topic, handler, options))
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
            time.sleep(_LOOK_SECONDS)
            for index, process in enumerate(running):
                if process.exitcode and not stopping.is_set():
                    log(
                        *("WARNING", "worker_ended", "a worker of %s ended with %s"),
                        *(topic, process.exitcode),
                        queue=topic,
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
    conninfo: str, topic: str, handler: Callable[[Message], Any], options: dict[str, Any]
) -> None:
    with connect(conninfo) as client:
        Consumer(client, topic, handler, **options).run()
