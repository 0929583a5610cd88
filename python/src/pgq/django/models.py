"""The results of tasks."""

from __future__ import annotations

from django.db import models

__all__ = ["TaskRecord"]


class TaskRecord(models.Model):
    """A task that was enqueued, with its result."""

    id = models.CharField(primary_key=True, max_length=32)
    task = models.TextField()
    queue_name = models.TextField()
    priority = models.SmallIntegerField(default=0)
    backend = models.TextField()
    run_after = models.DateTimeField(null=True)
    args = models.JSONField()
    kwargs = models.JSONField()
    status = models.CharField(max_length=10)
    enqueued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    last_attempted_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, db_index=True)
    return_value = models.JSONField(null=True)
    errors = models.JSONField(default=list)
    worker_ids = models.JSONField(default=list)

    class Meta:
        db_table = "pgq_django_task"

    def __str__(self) -> str:
        return f"{self.task} {self.id}: {self.status}"
