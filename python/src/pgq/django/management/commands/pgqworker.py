"""``manage.py pgqworker``: runs the tasks of a backend until SIGTERM or SIGINT."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import ExitStack
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError

import pgq
from pgq.django.backend import PgqBackend

try:
    from django.tasks import task_backends
except ImportError:
    from django_tasks import task_backends


class Command(BaseCommand):
    """Runs tasks."""

    help = "Runs the tasks of a pgq backend until SIGTERM or SIGINT."

    def add_arguments(self, parser: Any) -> None:
        """Add the options."""
        parser.add_argument("--backend", default="default", help="name of the backend in TASKS")
        parser.add_argument("--queue", action="append", help="all of the backend if not given")
        parser.add_argument("--concurrency", type=int, default=1, help="concurrent tasks per queue")
        parser.add_argument("--drain", action="store_true", help="end when no task is ready")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run tasks until a signal arrives, or until the queues are drained."""
        backend = task_backends[options["backend"]]
        if not isinstance(backend, PgqBackend):
            raise CommandError(f"{options['backend']} is no backend of pgq")
        worker_id = f"{socket.gethostname()}:{os.getpid()}"[-64:]
        queues = options["queue"] or sorted(backend.queues)
        over = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            if threading.current_thread() is threading.main_thread():
                signal.signal(number, lambda *_: over.set())
        with pgq.connect(backend.conninfo()) as client, ExitStack() as stack:
            consumers = [
                pgq.Consumer(
                    client,
                    backend.create_queue(queue),
                    partial(backend.run, worker_id=worker_id),
                    concurrency=options["concurrency"],
                    drain=options["drain"],
                )
                for queue in queues
            ]
            if options["drain"]:
                for consumer in consumers:
                    consumer.run()
                return
            for consumer in consumers:
                stack.enter_context(consumer)
            self.stdout.write(f"{worker_id} runs tasks of {', '.join(queues)}")
            over.wait()
