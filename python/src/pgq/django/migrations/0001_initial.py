"""Installs or upgrades pgq, and creates the table of results."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models

from pgq.migrations import script


def install(apps: Any, schema_editor: Any) -> None:
    """Install pgq, or upgrade it to the version of this package."""
    if schema_editor.connection.vendor == "postgresql":
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(script())


class Migration(migrations.Migration):
    """Reversing this migration drops the results; pgq and its queues stay."""

    initial = True
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [
        migrations.RunPython(install, migrations.RunPython.noop),
        migrations.CreateModel(
            name="TaskRecord",
            fields=[
                ("id", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("task", models.TextField()),
                ("queue_name", models.TextField()),
                ("priority", models.SmallIntegerField(default=0)),
                ("backend", models.TextField()),
                ("run_after", models.DateTimeField(null=True)),
                ("args", models.JSONField()),
                ("kwargs", models.JSONField()),
                ("status", models.CharField(max_length=10)),
                ("enqueued_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("last_attempted_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(db_index=True, null=True)),
                ("return_value", models.JSONField(null=True)),
                ("errors", models.JSONField(default=list)),
                ("worker_ids", models.JSONField(default=list)),
            ],
            options={"db_table": "pgq_django_task"},
        ),
    ]
