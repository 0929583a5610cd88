"""Filters: `F` builds them, `document` writes them as JSON."""

from __future__ import annotations

from pgq.filters.builder import Condition, F, Filter, ago, document

__all__ = ["Condition", "F", "Filter", "ago", "document"]
