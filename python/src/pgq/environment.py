"""Which transports to publish to: for development, tests and production, from one small file."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgq.config import TransportConfig

if TYPE_CHECKING:
    from pgq.memory import MemoryTransport
    from pgq.relay.direct import Direct

__all__ = ["Place", "Tally", "places"]

_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(slots=True)
class Tally:
    """What has become of the messages for one transport."""

    transport: Any
    required: bool
    published: int = 0
    failed: int = 0
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A transport that a configuration names."""

    url: str
    required: bool = False
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def config(self) -> TransportConfig | None:
        """The options, if it is a database."""
        if not self.url.startswith(("postgresql:", "postgres:")):
            return None
        return TransportConfig(database_url=self.url, **dict(self.options))

    def open(self) -> MemoryTransport | Direct:
        """Return the transport, if it is none."""
        # They are made of what is configured here.
        from pgq.memory import MemoryTransport
        from pgq.relay import Direct, open_destination

        if self.url.startswith("memory:"):
            options: dict[str, Any] = {"enable_batching": False, **dict(self.options)}
            return MemoryTransport(on_demand=True, **options).connect()
        if self.options:
            raise ValueError(f"{self.url} has no options but its own")
        return Direct(open_destination(self.url))


def places(environment: str | None = None, path: str | Path | None = None) -> list[Place]:
    """Return the transports of an environment.

    PGQ_TRANSPORTS names them, with blanks between and a ``!`` before those that are required. Else
    the file has them: `path`, else PGQ_CONFIG, else ``pgq.toml``; the environment is a table of it:
    `environment`, else PGQ_ENV, else ``development``.
    """
    given = os.environ.get("PGQ_TRANSPORTS", "").split()
    if given and environment is None and path is None:
        return [Place(url=word.lstrip("!"), required=word.startswith("!")) for word in given]
    name = environment or os.environ.get("PGQ_ENV") or "development"
    file = Path(path or os.environ.get("PGQ_CONFIG") or "pgq.toml")
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"no {file}, and PGQ_TRANSPORTS is not set") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file}: {error}") from None
    table = tables.get(name)
    if not isinstance(table, dict):
        raise ValueError(f"{file} has no environment [{name}]; there are: {', '.join(tables)}")
    found = table.get("transports")
    if not isinstance(found, list) or not found or set(table) != {"transports"}:
        raise ValueError(f"{file}: [{name}] is transports = [...], and nothing else")
    return [_place(entry, f"{file}: [{name}]") for entry in found]


def _place(entry: Any, where: str) -> Place:
    if isinstance(entry, str):
        return Place(url=_expanded(entry, where))
    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
        raise ValueError(f'{where}: a transport is "URL" or {{ url = "URL", required = true }}')
    options = dict(entry)
    url, required = options.pop("url"), options.pop("required", False)
    known = {field.name for field in fields(TransportConfig)} - {"database_url"}
    if unknown := set(options) - known:
        raise ValueError(f"{where}: no such options: {', '.join(sorted(unknown))}")
    if "batch_timeout" in options:
        options["batch_timeout"] = timedelta(seconds=options["batch_timeout"])
    if not isinstance(required, bool):
        raise ValueError(f"{where}: required is true or false")
    return Place(_expanded(url, where), required, tuple(options.items()))


def _expanded(text: str, where: str) -> str:
    """Return a text with ``${NAME}`` replaced from the environment."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ValueError(f"{where}: the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return _VARIABLE.sub(value, text)
