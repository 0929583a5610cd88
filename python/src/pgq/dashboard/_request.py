"""The parts of a request; invalid requests are refused before the database is queried."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NoReturn

from starlette.requests import Request

from pgq.dashboard.failures import Refused

__all__ = [
    "body_of",
    "clean",
    "count",
    "given",
    "maybe",
    "number",
    "numbers",
    "refuse",
    "require_json",
    "text",
]

_MOST_BYTES = 128 * 1024
_MOST_IDS = 1000
_BIGINT = range(1, 2**63)
_INT = range(1, 2**31)
# How many seconds a browser may take to send the body of a request.
_BODY_TIMEOUT = 15


def refuse(message: str) -> NoReturn:
    """Refuse an invalid request."""
    raise Refused(HTTPStatus.BAD_REQUEST, message)


def require_json(request: Request) -> None:
    """Refuse a request that is not JSON, as a form of another page could send it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the request is not JSON")


async def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request."""
    require_json(request)
    length = request.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        raise Refused(HTTPStatus.LENGTH_REQUIRED, "the length of the request is missing")
    if int(length) > _MOST_BYTES:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {_MOST_BYTES // 1024} kB")
    try:
        body = json.loads(await asyncio.wait_for(request.body(), _BODY_TIMEOUT))
    except TimeoutError:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the request did not end") from None
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        refuse("the request is no JSON object")
    return body


def maybe(request: Request, name: str) -> str | None:
    """Return a query parameter, or None."""
    found = request.query_params.get(name)
    return None if found is None else clean(found, name)


def given(request: Request, name: str) -> str:
    """Return a required query parameter."""
    found = maybe(request, name)
    return refuse(f"{name} is missing") if found is None else found


def clean(text: str, name: str) -> str:
    """Return the text; refuse one that PostgreSQL cannot store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        refuse(f"{name} is no text")
    return refuse(f"{name} has a zero byte") if "\0" in text else text


def text(body: Mapping[str, Any], name: str) -> str:
    """Return a required text of the body."""
    value = body.get(name)
    return clean(value, name) if isinstance(value, str) else refuse(f"{name} is missing")


def number(value: Any, what: str = "a message") -> int:
    """Return the id of a message or a lease."""
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) in _BIGINT):
        refuse(f"{what} is named by a positive number")
    return int(text)


def count(body: Mapping[str, Any], name: str) -> int | None:
    """Return an optional positive number, or None."""
    value = body.get(name)
    if value is None or value == "":
        return None
    digits = "" if isinstance(value, bool) else str(value).strip()
    if not (digits.isascii() and digits.isdigit() and int(digits[:11]) in _INT):
        refuse(f"{name} must be a whole number from 1 to {_INT[-1]}, not {value!r}")
    return int(digits)


def numbers(body: Mapping[str, Any], name: str) -> list[int] | None:
    """Return a list of message ids, or None."""
    found = body.get(name)
    if found is None:
        return None
    if not isinstance(found, list) or not 1 <= len(found) <= _MOST_IDS:
        refuse(f"{name} must be a list of 1 to {_MOST_IDS} messages")
    return [number(each) for each in found]
