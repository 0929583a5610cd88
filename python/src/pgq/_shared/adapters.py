"""How a borrowed connection decodes values."""

from __future__ import annotations

import psycopg
from psycopg.abc import AdaptContext
from psycopg.pq import Format

__all__ = ["leaves_text"]

_JSONB = psycopg.adapters.types["jsonb"].oid


def leaves_text(context: AdaptContext) -> bool:
    """Whether the connection returns jsonb as text, as Django's connections do."""
    loader = context.adapters.get_loader(_JSONB, Format.TEXT)
    return loader is not None and isinstance(loader(_JSONB, context).load(b"{}"), str)
