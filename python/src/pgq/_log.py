"""Log records that have a name and fields."""

from __future__ import annotations

import logging
from typing import Any, Literal

import psycopg

__all__ = ["Level", "debugging", "log", "reason"]

_logger = logging.getLogger("pgq")
_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO}
_LEVELS |= {"WARNING": logging.WARNING, "ERROR": logging.ERROR}

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


def debugging() -> bool:
    """Whether anybody wants to know about every message."""
    return _logger.isEnabledFor(logging.DEBUG)


def log(
    level: Level, event: str, text: str, *arguments: Any, exc_info: bool = False, **fields: Any
) -> None:
    """Log what has happened: an event for programs, a text for people, fields for both."""
    number = _LEVELS[level]
    if _logger.isEnabledFor(number):
        extra = {"event": event, **fields}
        _logger.log(number, text, *arguments, extra=extra, exc_info=exc_info, stacklevel=2)


def reason(error: BaseException) -> str:
    """Return what an error says, without the details in which a server may quote a message."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    return str(error).strip()
