"""A destination in memory, for tests of what happens around a relay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pgq.relay.destination import Copy

__all__ = ["Memory"]


class Memory:
    """Keeps what it is sent, each batch once; `error` makes it fail, `refuse` refuses topics."""

    keeps_batches: ClassVar[bool] = True
    label = "memory:"
    batch_size = 100
    linger = 0.0

    def __init__(self, *, refuse: Mapping[str, str] | None = None) -> None:
        self.copies: list[Copy] = []
        self.error: Exception | None = None
        self.calls = 0
        self._refuse = refuse or {}
        self._last = ""

    def send(self, batch: str, copies: Sequence[Copy]) -> Mapping[int, str]:
        """Keep the copies."""
        self.calls += 1
        if self.error is not None:
            raise self.error
        refused = {
            copy.id: self._refuse[copy.topic] for copy in copies if copy.topic in self._refuse
        }
        if batch != self._last:
            self.copies += [copy for copy in copies if copy.id not in refused]
            self._last = batch
        return refused

    def close(self) -> None:
        """Keep everything."""
