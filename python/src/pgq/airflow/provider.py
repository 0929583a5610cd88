"""The provider that Airflow loads: the message queue ``scheme="pgq"``."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider

import pgq

__all__ = ["PgqMessageQueueProvider", "get_provider_info"]


class PgqMessageQueueProvider(BaseMessageQueueProvider):
    """``MessageQueueTrigger(scheme="pgq", topic=..., filter=...)`` is a `PgqTrigger`."""

    scheme = "pgq"

    def trigger_class(self) -> type[Any]:
        """Return the class of the trigger."""
        from pgq.airflow.trigger import PgqTrigger

        return PgqTrigger


def get_provider_info() -> dict[str, Any]:
    """Return the entry of the package in Airflow's list of providers."""
    return {
        "package-name": "pgq-client",
        "name": "pgq",
        "description": "Message queues inside PostgreSQL",
        "versions": [pgq.__version__],
        "queues": [f"{PgqMessageQueueProvider.__module__}.{PgqMessageQueueProvider.__name__}"],
        "triggers": [{"integration-name": "pgq", "python-modules": ["pgq.airflow.trigger"]}],
    }
