"""Log records that have a name and fields."""

from __future__ import annotations

import logging
from typing import Any, Literal

import psycopg

__all__ = ["Level", "debugging", "log", "notice", "reason"]

_logger = logging.getLogger("pgq")
_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO}
_LEVELS |= {"WARNING": logging.WARNING, "ERROR": logging.ERROR}

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


def debugging() -> bool:
    """Whether DEBUG records are logged."""
    return _logger.isEnabledFor(logging.DEBUG)


def log(
    level: Level,
    event: str,
    text: str,
    *arguments: Any,
    exc_info: BaseException | None = None,
    **fields: Any,
) -> None:
    """Log an event with its name, a text for people, and fields."""
    number = _LEVELS[level]
    if _logger.isEnabledFor(number):
        extra = {"event": event, **fields}
        _logger.log(number, text, *arguments, extra=extra, exc_info=exc_info, stacklevel=2)


def reason(error: BaseException) -> str:
    """Return the text of an error without its details: the server may quote payloads in them."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    return str(error).strip()


def notice(diagnostic: psycopg.errors.Diagnostic) -> None:
    """Log a notice of the server; connections use this function as their notice handler."""
    text = diagnostic.message_primary or ""
    if diagnostic.message_hint:
        text = f"{text} ({diagnostic.message_hint})"
    if diagnostic.severity_nonlocalized == "WARNING":
        log("WARNING", "server_warning", "%s", text, sqlstate=diagnostic.sqlstate)
    else:
        log("INFO", "server_notice", "%s", text, sqlstate=diagnostic.sqlstate)
