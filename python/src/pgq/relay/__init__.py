"""Relays: each forwards a queue to one destination, and fails alone."""

from __future__ import annotations

from pgq.relay.destination import Busy, Copy, Destination, NotNow
from pgq.relay.direct import Direct
from pgq.relay.memory import Memory
from pgq.relay.open import open_destination
from pgq.relay.relay import Relay

__all__ = [
    "Busy",
    "Copy",
    "Destination",
    "Direct",
    "Memory",
    "NotNow",
    "Relay",
    "open_destination",
]
