"""Celery on pgq: a transport of kombu and a result backend.

>>> import pgq.celery
>>> app = Celery(broker="pgq://app@db/shop", backend="pgq://app@db/shop")

Importing this module registers both for the scheme ``pgq``.
"""

from __future__ import annotations

from celery.app.backends import BACKEND_ALIASES
from kombu.transport import TRANSPORT_ALIASES

__all__: list[str] = []

TRANSPORT_ALIASES["pgq"] = "pgq.celery.transport:Transport"
BACKEND_ALIASES["pgq"] = "pgq.celery.backend:Backend"
