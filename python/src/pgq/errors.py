"""Exceptions: one for each SQLSTATE of pgq, and a few of the client's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg

if TYPE_CHECKING:
    from pgq.message import Draft

__all__ = [
    "BY_SQLSTATE",
    "CircuitOpen",
    "HandlerTimeout",
    "InvalidFilter",
    "LeaseLost",
    "NoQueue",
    "NotInstalled",
    "PayloadError",
    "PgqError",
    "PublishFailed",
    "QueueExists",
    "QueueNotFound",
    "Refused",
    "RequestTimeout",
]


class PgqError(Exception):
    """The base of all errors of pgq: a message, perhaps with a detail and a hint for the cure."""

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
    """The lease is stale, or does not hold these messages; nothing has changed."""

    sqlstate = "QU003"


class InvalidFilter(PgqError):
    """The filter document is not valid; ``detail`` names the place."""

    sqlstate = "QU004"


class NoQueue(PgqError):
    """No queue receives the topic."""

    sqlstate = "QU005"


class Refused(PgqError):
    """pgq has refused a call: a wrong argument, a missing right, a state that does not allow it.

    `sqlstate` tells which. The exception is also psycopg's exception for that SQLSTATE, such as
    `psycopg.errors.InvalidParameterValue`, and has its `diag`.
    """

    reported: psycopg.errors.Diagnostic | None = None

    @property
    def diag(self) -> psycopg.errors.Diagnostic:
        """What the server has reported."""
        return self.reported or psycopg.Error(self.message).diag

    def __reduce__(self) -> Any:
        return refused, (self.sqlstate, self.message, self.detail, self.hint)


class NotInstalled(PgqError):
    """The database does not have pgq, or has another version of it than this client."""


class CircuitOpen(PgqError):
    """The circuit breaker is open: the database or transport failed too often."""


class RequestTimeout(PgqError, TimeoutError):
    """No reply arrived in time, or the awaited message has not ended in time."""


class PayloadError(PgqError, ValueError):
    """A payload does not have its type, or its serializer cannot read it."""


class HandlerTimeout(PgqError, TimeoutError):
    """A handler took longer than `handler_timeout`, or than the queue's `max_lease`."""


class PublishFailed(PgqError):
    """Some messages of a `Publisher` or `MultiPublisher` were refused: `drafts`."""

    def __init__(self, cause: Exception, drafts: Sequence[Draft]) -> None:
        if len(drafts) == 1:
            super().__init__(f"a message was refused: {cause}")
        else:
            super().__init__(f"{len(drafts)} messages were refused, the last one because: {cause}")
        self.drafts = list(drafts)
        self.__cause__ = cause


BY_SQLSTATE: dict[str, type[PgqError]] = {
    error.sqlstate: error
    for error in (QueueNotFound, QueueExists, LeaseLost, InvalidFilter, NoQueue)
    if error.sqlstate is not None
}

# SQLSTATEs of PostgreSQL with which pgq refuses a call.
_REFUSED: dict[str, type[Refused]] = {
    state: type("Refused", (Refused, psycopg.errors.lookup(state)), {"sqlstate": state})
    for state in ("0A000", "22004", "22023", "42501", "42704", "55000", "55006", "P0002", "XX001")
}


def refused(
    state: str, message: str, detail: str | None = None, hint: str | None = None
) -> Refused:
    """Return the exception for a call that pgq refuses with this SQLSTATE."""
    return _REFUSED[state](message, detail=detail, hint=hint)


def translated(error: psycopg.Error) -> PgqError | None:
    """Return pgq's exception for an error of the server, if there is one."""
    diagnostic = error.diag
    known = by_sqlstate(
        error.sqlstate or "",
        diagnostic.message_primary or str(error),
        diagnostic.message_detail,
        diagnostic.message_hint,
        ours=is_ours(diagnostic.source_function, diagnostic.context),
    )
    if isinstance(known, Refused):
        known.reported = diagnostic
    return known


def is_ours(function: str | None, context: str | None) -> bool:
    """Whether a function of pgq has raised an error, by what the server reports of its origin."""
    first = (context or "").partition("\n")[0]
    return function == "exec_stmt_raise" and re.search(r"\bpgq\.", first) is not None


def by_sqlstate(
    sqlstate: str, message: str, detail: str | None, hint: str | None, *, ours: bool = False
) -> PgqError | None:
    """Return pgq's exception for a SQLSTATE, if there is one. `ours`: pgq has raised the error."""
    if ours and sqlstate in _REFUSED:
        return refused(sqlstate, message, detail, hint)
    found = BY_SQLSTATE.get(sqlstate)
    if found is None:
        return _not_installed(sqlstate, message)
    return found(message, detail=detail, hint=hint)


def _not_installed(sqlstate: str, message: str) -> PgqError | None:
    if sqlstate == "3F000" and '"pgq"' in message:
        return NotInstalled(
            "pgq is not installed in this database",
            hint="Install it: pgq install, or CREATE EXTENSION pgq.",
        )
    if sqlstate == "42P01" and "pgq." in message:
        return NotInstalled(
            "pgq in this database is of another version than this client, or not complete",
            detail=message,
            hint="Upgrade it: pgq install, or ALTER EXTENSION pgq UPDATE; pgq doctor compares.",
        )
    if sqlstate == "42883" and "pgq." in message:
        return PgqError(
            "an argument has a wrong type, or pgq in this database is of another version",
            detail=message,
            hint="pgq doctor compares the versions, pgq install upgrades the database.",
        )
    return None
