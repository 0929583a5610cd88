"""Relays: each forwards one queue to one destination, independently of the others."""

from __future__ import annotations

from pgq.relay.destination import Busy, Destination, NotNow, Record
from pgq.relay.direct import Direct
from pgq.relay.memory import Memory
from pgq.relay.open import open_destination
from pgq.relay.relay import Relay

__all__ = [
    "Busy",
    "Destination",
    "Direct",
    "Memory",
    "NotNow",
    "Record",
    "Relay",
    "open_destination",
]
