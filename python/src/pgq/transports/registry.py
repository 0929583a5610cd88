"""Transports by name: built-in ones, and those that users register."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

__all__ = [
    "is_database",
    "is_registered",
    "open_transport",
    "register_transport",
    "transport_names",
    "unregister_transport",
]

_NAME = re.compile(r"[a-z][a-z0-9+.-]*")
_DATABASES = ("database", "postgresql", "postgres")
_BUILT_IN = (*_DATABASES, "memory", "redis", "rediss", "unix", "file", "s3", "http", "https")

_lock = threading.Lock()
_factories: dict[str, Callable[..., Any]] = {}


def register_transport(name: str, factory: Callable[..., Any]) -> None:
    """Register a transport of your own for addresses that begin with a name.

    :param name: as in ``name://...``: small letters, digits, ``+``, ``.`` and ``-``.
    :param factory: is called with the address and the options as keywords. It returns an object
        with a method `publish` (a function or a coroutine function), and optionally `close`.

    >>> register_transport("log", lambda address, **options: LogTransport(address))
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"a transport's name has small letters, digits, +, . and -, not {name!r}")
    with _lock:
        if name in _factories or name in _BUILT_IN:
            raise ValueError(f"{name} is registered already")
        _factories[name] = factory


def unregister_transport(name: str) -> bool:
    """Remove a registered transport; False if there was none.

    :param name: the name of the transport.

    >>> unregister_transport("printer")
    True
    """
    with _lock:
        return _factories.pop(name, None) is not None


def transport_names() -> list[str]:
    """Return the names that an address can begin with."""
    return sorted({*_BUILT_IN, *_factories})


def is_database(address: str) -> bool:
    """Whether an address, or a name alone, means a database with pgq."""
    return _name(address) in _DATABASES


def is_registered(address: str) -> bool:
    """Whether an address means a transport that a user has added."""
    return _name(address) in _factories


def open_transport(address: str, **options: Any) -> Any:
    """Return the transport for an address or a name; not for a database."""
    # Imported here, because these modules import this one.
    from pgq.relay import Direct, open_destination
    from pgq.transports.memory import MemoryTransport

    name = _name(address)
    factory = _factories.get(name)
    if factory is not None:
        return factory(address if ":" in address else f"{address}:", **options)
    if name == "memory":
        given: dict[str, Any] = {"enable_batching": False, **options}
        return MemoryTransport(on_demand=True, **given).connect()
    if ":" not in address:
        names = ", ".join(transport_names())
        raise ValueError(f"no transport is called {address}; there are: {names}")
    if options:
        raise ValueError(f"{address} has no options but its own")
    return Direct(open_destination(address))


def _name(address: str) -> str:
    return address.partition(":")[0].lower()
