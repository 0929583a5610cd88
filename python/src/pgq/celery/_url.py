"""Connection strings: ``pgq://`` is an alias of ``postgresql://``."""

from __future__ import annotations

__all__ = ["dsn"]


def dsn(url: str) -> str:
    """Return a connection string for libpq; an empty URL means the ``PG*`` variables."""
    scheme, found, rest = url.partition("://")
    if not found:
        return url
    return f"postgresql://{rest}" if scheme in ("pgq", "") else url
