"""The app: put ``pgq.django`` into INSTALLED_APPS."""

from __future__ import annotations

from django.apps import AppConfig

__all__ = ["PgqConfig"]


class PgqConfig(AppConfig):
    """The Django app: the migration that installs pgq, and the results of tasks."""

    name = "pgq.django"
    label = "pgq"
    verbose_name = "pgq"
    default_auto_field = "django.db.models.BigAutoField"
