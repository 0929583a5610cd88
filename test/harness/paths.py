"""The places of the repository."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
TEST = ROOT / "test"


@contextmanager
def fetching() -> Iterator[None]:
    """Let one process at a time fetch missing files into the cache."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
