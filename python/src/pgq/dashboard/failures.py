"""Errors as data for the page: those of the database, and requests that are refused."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import psycopg

__all__ = ["Refused", "as_json", "status_of"]

_HINTS = {
    "3F000": "Is pgq in this database? Try: pgq install",
    "42883": "Is pgq in this database, in this version? Try: pgq install",
    "42P01": "Is pgq in this database? Try: pgq install",
    "42501": "The page has the rights of its role. See what is missing: pgq doctor --role ROLE",
    "57014": "It took too long and was stopped, so as not to burden the database.",
    "25006": "This is a standby: act on the primary.",
}


class Refused(Exception):
    """A refused request: the HTTP status, a message and a hint."""

    def __init__(self, status: HTTPStatus, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.hint = hint


def as_json(error: psycopg.Error) -> dict[str, Any]:
    """Return an error as the page shows it."""
    diag = error.diag
    return {
        "message": diag.message_primary or str(error).strip() or type(error).__name__,
        "detail": diag.message_detail,
        "hint": diag.message_hint or _HINTS.get(error.sqlstate or ""),
        "context": diag.context if error.sqlstate == "22P02" else None,
        "sqlstate": error.sqlstate,
    }


def status_of(error: psycopg.Error) -> HTTPStatus:
    """Return the HTTP status for an error of the database."""
    state = error.sqlstate or ""
    if state == "QU001":
        return HTTPStatus.NOT_FOUND
    if state == "QU004" or state.startswith("22"):
        return HTTPStatus.UNPROCESSABLE_ENTITY
    if state == "42501":
        return HTTPStatus.FORBIDDEN
    if state == "57014":
        return HTTPStatus.GATEWAY_TIMEOUT
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.CONFLICT
