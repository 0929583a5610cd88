"""Connection strings: ``pgq://`` stands for ``postgresql://``."""

from __future__ import annotations

__all__ = ["dsn"]


def dsn(url: str) -> str:
    """Return what libpq takes; an empty URL leaves all to its variables."""
    scheme, found, rest = url.partition("://")
    if not found:
        return url
    return f"postgresql://{rest}" if scheme in ("pgq", "") else url
