"""The transports of development, test and production, from a TOML file or a variable."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pgq.transports.config import TransportConfig
from pgq.transports.registry import is_database, is_registered, open_transport

__all__ = ["ConfiguredTransport", "configured_transports"]

_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class ConfiguredTransport:
    """A transport that a configuration names."""

    url: str
    required: bool = False
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def config(self) -> TransportConfig | None:
        """The options of a database; None for any other transport."""
        if not is_database(self.url):
            return None
        return TransportConfig(database_url=self.url, **dict(self.options))

    def open(self) -> Any:
        """Return the transport; not for a database."""
        return open_transport(self.url, **dict(self.options))


def configured_transports(
    environment: str | None = None, path: str | Path | None = None
) -> list[ConfiguredTransport]:
    """Return the transports of an environment.

    Without arguments, PGQ_TRANSPORTS counts if it is set: it lists addresses, separated by blanks,
    with a ``!`` before required ones. Else the transports come from a TOML file with a table for
    each environment.

    :param environment: the table of the file; PGQ_ENV if None, else ``development``.
    :param path: the file; PGQ_CONFIG if None, else ``pgq.toml``.
    """
    given = os.environ.get("PGQ_TRANSPORTS", "").split()
    if given and environment is None and path is None:
        return [
            ConfiguredTransport(url=word.lstrip("!"), required=word.startswith("!"))
            for word in given
        ]
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
    return [_configured(entry, f"{file}: [{name}]") for entry in found]


def _configured(entry: Any, where: str) -> ConfiguredTransport:
    if isinstance(entry, str):
        return ConfiguredTransport(url=_expanded(entry, where))
    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
        raise ValueError(f'{where}: a transport is "URL" or {{ url = "URL", required = true }}')
    options = dict(entry)
    url, required = options.pop("url"), options.pop("required", False)
    known = {field.name for field in fields(TransportConfig)} - {"database_url"}
    unknown = set(options) - known
    if unknown and not is_registered(url):
        raise ValueError(f"{where}: no such options: {', '.join(sorted(unknown))}")
    if not isinstance(required, bool):
        raise ValueError(f"{where}: required is true or false")
    return ConfiguredTransport(_expanded(url, where), required, tuple(options.items()))


def _expanded(text: str, where: str) -> str:
    """Return a text with ``${NAME}`` replaced from the environment."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ValueError(f"{where}: the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return _VARIABLE.sub(value, text)
