"""Message queues inside PostgreSQL: thin bindings for the extension pgq."""

from __future__ import annotations

from pgq._files import extension_version

__all__ = ["__version__"]

__version__ = extension_version()
