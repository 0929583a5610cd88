"""Counters of one of several transports."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Counters"]


class Counters:
    """How many messages a transport has stored, refused and keeps waiting.

    :param transport: the transport.
    :param required: whether publishing fails if this transport fails.

    >>> [(counter.published, counter.failed) for counter in publisher.counters]
    [(12, 0)]
    """

    def __init__(self, transport: Any, required: bool = False) -> None:
        self.transport = transport
        self.required = required
        #: The last error.
        self.error: Exception | None = None
        self._lock = threading.Lock()
        self._published = 0
        self._failed = 0
        # The transport may have published messages before it was added.
        self._published_before = self._counted("published")
        self._refused_before = self._counted("refused")

    @property
    def published(self) -> int:
        """How many messages the transport has stored."""
        return self._published + self._counted("published") - self._published_before

    @property
    def failed(self) -> int:
        """How many messages the transport has refused."""
        return self._failed + self._counted("refused") - self._refused_before

    @property
    def waiting(self) -> int:
        """How many messages wait in memory for the next batch."""
        return self._counted("waiting")

    @property
    def batches(self) -> bool:
        """Whether the transport stores messages later, in batches."""
        return not self.required and bool(getattr(self.transport, "batches", False))

    def count(self, error: Exception | None) -> None:
        """Count a message that was stored immediately, or an error."""
        with self._lock:
            if error is None:
                self._published += 1
            else:
                self._failed += 1
                self.error = error

    def _counted(self, name: str) -> int:
        """Return a counter of a transport that batches."""
        return int(getattr(self.transport, name)) if self.batches else 0
