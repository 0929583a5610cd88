"""What can go wrong: an exception for each SQLSTATE of pgq, and a few of the client's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import psycopg

if TYPE_CHECKING:
    from pgq.message import Draft

__all__ = [
    "BY_SQLSTATE",
    "CircuitOpen",
    "InvalidFilter",
    "LeaseLost",
    "NoQueue",
    "PgqError",
    "PublishFailed",
    "QueueExists",
    "QueueNotFound",
    "RequestTimeout",
]


class PgqError(Exception):
    """The base of all errors of pgq; says what the server said, and how to cure it."""

    sqlstate: ClassVar[str | None] = None

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.message]
        if self.detail:
            parts.append(f"DETAIL:  {self.detail}")
        if self.hint:
            parts.append(f"HINT:  {self.hint}")
        return "\n".join(parts)


class QueueNotFound(PgqError):
    """There is no queue of that name."""

    sqlstate = "QU001"


class QueueExists(PgqError):
    """The queue exists with another policy."""

    sqlstate = "QU002"


class LeaseLost(PgqError):
    """The lease does not hold these messages (any more); nothing has changed."""

    sqlstate = "QU003"


class InvalidFilter(PgqError):
    """The filter document is not valid; ``detail`` tells where."""

    sqlstate = "QU004"


class NoQueue(PgqError):
    """No queue receives the topic, so that the message would be lost."""

    sqlstate = "QU005"


class CircuitOpen(PgqError):
    """The database failed too often lately: it is left alone for a while."""


class RequestTimeout(PgqError, TimeoutError):
    """No reply came in time."""


class PublishFailed(PgqError):
    """The database refused some messages of a `Publisher`; `drafts` are these."""

    def __init__(self, cause: Exception, drafts: Sequence[Draft]) -> None:
        super().__init__(f"{len(drafts)} messages were refused, the last one because: {cause}")
        self.drafts = list(drafts)
        self.__cause__ = cause


BY_SQLSTATE: dict[str, type[PgqError]] = {
    error.sqlstate: error
    for error in (QueueNotFound, QueueExists, LeaseLost, InvalidFilter, NoQueue)
    if error.sqlstate is not None
}


def translated(error: psycopg.Error) -> PgqError | None:
    """Return pgq's exception for an error of the server, if there is one."""
    found = BY_SQLSTATE.get(error.sqlstate or "")
    if found is None:
        return None
    said = error.diag
    return found(
        said.message_primary or str(error), detail=said.message_detail, hint=said.message_hint
    )
