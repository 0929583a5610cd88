"""The backend: each task is a message, and a row with its result."""

from __future__ import annotations

from datetime import timedelta
from traceback import format_exception
from typing import Any

from django.db import close_old_connections, connections, transaction
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.module_loading import import_string
from psycopg.conninfo import make_conninfo

import pgq
from pgq.django._tasks import (
    BaseTaskBackend,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
    task_finished,
    task_started,
)

__all__ = ["PgqBackend"]

# Connection parameters of Django that libpq does not have.
_NOT_LIBPQ = {"autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory"}


class PgqBackend(BaseTaskBackend):
    """A backend of `django.tasks` on queues of pgq.

    OPTIONS: ``database``, the alias of a database; ``prefix`` of the queues' names;
    ``max_attempts`` of a task that raises (1: no retry).
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.database: str = self.options.get("database", "default")
        self.prefix: str = self.options.get("prefix", "tasks.")
        self.max_attempts: int = self.options.get("max_attempts", 1)

    # Enqueueing

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Publish a task in the current transaction; the task runs if that commits."""
        from pgq.django.models import TaskRecord

        self.validate_task(task)
        now = timezone.now()
        with transaction.atomic(using=self.database):
            record = TaskRecord.objects.using(self.database).create(
                id=get_random_string(32),
                task=task.module_path,
                queue_name=task.queue_name,
                priority=task.priority,
                backend=self.alias,
                run_after=task.run_after,
                args=normalize_json(list(args)),
                kwargs=normalize_json(kwargs),
                status=TaskResultStatus.READY,
                enqueued_at=now,
            )
            delay = None if task.run_after is None else max(task.run_after - now, timedelta(0))
            try:
                with transaction.atomic(using=self.database):
                    self._publish(record, delay)
            except pgq.NoQueue:
                self.create_queue(task.queue_name)
                self._publish(record, delay)
        result = self._result(record)
        task_enqueued.send(type(self), task_result=result)
        return result

    def _publish(self, record: Any, delay: timedelta | None) -> None:
        self._client().publish(
            self.prefix + record.queue_name,
            {"id": record.id},
            headers={"task": record.task},
            priority=record.priority,
            delay=delay,
        )

    def create_queue(self, queue_name: str) -> str:
        """Create the queue if it does not exist; return its name in pgq, with the prefix."""
        name = self.prefix + queue_name
        with transaction.atomic(using=self.database):
            client = self._client()
            if name not in client.queue_names():
                client.create_queue(name, max_attempts=max(3, self.max_attempts))
        return name

    def _client(self) -> pgq.Client:
        connection = connections[self.database]
        connection.ensure_connection()
        return pgq.Client(connection.connection)

    # Results

    def get_result(self, result_id: str) -> Any:
        """Return the result of a task."""
        from pgq.django.models import TaskRecord

        try:
            record = TaskRecord.objects.using(self.database).get(id=result_id)
        except TaskRecord.DoesNotExist as error:
            raise TaskResultDoesNotExist(result_id) from error
        return self._result(record)

    def _result(self, record: Any) -> Any:
        task = import_string(record.task)
        result = TaskResult(
            task=task.using(
                priority=record.priority,
                queue_name=record.queue_name,
                run_after=record.run_after,
                backend=record.backend,
            ),
            id=record.id,
            status=TaskResultStatus(record.status),
            enqueued_at=record.enqueued_at,
            started_at=record.started_at,
            finished_at=record.finished_at,
            last_attempted_at=record.last_attempted_at,
            args=record.args,
            kwargs=record.kwargs,
            backend=record.backend,
            errors=[TaskError(**error) for error in record.errors],
            worker_ids=record.worker_ids,
        )
        object.__setattr__(result, "_return_value", record.return_value)
        return result

    # Running

    def conninfo(self) -> str:
        """Return the connection string of the database, for workers."""
        words = connections[self.database].get_connection_params()
        return make_conninfo(
            "", **{k: v for k, v in words.items() if v is not None and k not in _NOT_LIBPQ}
        )

    def run(self, message: pgq.Message, worker_id: str) -> None:
        """Run the task of a message; raise if it must be retried."""
        close_old_connections()
        try:
            self._run(message, worker_id)
        finally:
            close_old_connections()

    def _run(self, message: pgq.Message, worker_id: str) -> None:
        from pgq.django.models import TaskRecord

        rows = TaskRecord.objects.using(self.database)
        record = rows.filter(id=message.payload["id"]).first()
        if record is None or record.finished_at is not None:
            return  # the row was deleted, or a worker died between storing the result and the ack
        now = timezone.now()
        record.status = TaskResultStatus.RUNNING
        record.started_at = record.started_at or now
        record.last_attempted_at = now
        record.worker_ids = [*record.worker_ids, worker_id]
        record.save(using=self.database)
        result = self._result(record)
        task_started.send(type(self), task_result=result)
        context = [TaskContext(task_result=result)] if result.task.takes_context else []
        try:
            value = normalize_json(result.task.call(*context, *result.args, **result.kwargs))
        except Exception as error:
            kind = type(error)
            record.errors = [
                *record.errors,
                {
                    "exception_class_path": f"{kind.__module__}.{kind.__qualname__}",
                    "traceback": "".join(format_exception(error)),
                },
            ]
            if message.attempt < self.max_attempts:
                record.status = TaskResultStatus.READY
                record.save(using=self.database)
                raise
            record.status = TaskResultStatus.FAILED
        else:
            record.return_value = value
            record.status = TaskResultStatus.SUCCESSFUL
        record.finished_at = timezone.now()
        record.save(using=self.database)
        task_finished.send(type(self), task_result=self._result(record))
