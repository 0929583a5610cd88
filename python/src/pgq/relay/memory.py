"""A destination in memory, for tests of relays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pgq.relay.destination import Record

__all__ = ["Memory"]


class Memory:
    """Keeps the records that it gets, each batch once.

    While `error` is set, `send` raises it. `refuse` has the topics to refuse, with the reasons.
    """

    keeps_batches: ClassVar[bool] = True
    label = "memory:"
    batch_size = 100
    linger = 0.0

    def __init__(self, *, refuse: Mapping[str, str] | None = None) -> None:
        self.records: list[Record] = []
        self.error: Exception | None = None
        self.calls = 0
        self._refuse = refuse or {}
        self._last = ""

    def send(self, batch: str, records: Sequence[Record]) -> Mapping[int, str]:
        """Keep the records."""
        self.calls += 1
        if self.error is not None:
            raise self.error
        refused = {
            record.id: self._refuse[record.topic]
            for record in records
            if record.topic in self._refuse
        }
        if batch != self._last:
            self.records += [record for record in records if record.id not in refused]
            self._last = batch
        return refused

    def close(self) -> None:
        """Do nothing: the records stay."""
