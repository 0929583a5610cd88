"""The page as an ASGI application: files, queries, actions and a stream of events."""

from __future__ import annotations

import hashlib
import json
import logging
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from importlib import resources
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgq import __version__
from pgq.dashboard._request import body_of, given, maybe, number, refuse, require_json, text
from pgq.dashboard.data import Database
from pgq.dashboard.failures import Refused, as_json, status_of
from pgq.dashboard.feed import Feed
from pgq.dashboard.find import Wanted, cause, wanted
from pgq.dashboard.guard import HEADERS, Rules
from pgq.dashboard.verbs import VERBS

__all__ = ["App", "app"]

logger = logging.getLogger("pgq.dashboard")

Answer = Callable[[Request], Awaitable[Any]]


def app(
    database: str | AsyncConnectionPool[Any],
    *,
    writes: bool | Callable[[Request], bool] = False,
    interval: float = 2.0,
) -> App:
    """Return the page as an ASGI application, to be mounted behind the login of another one.

    Parameters
    ----------
    database:
        A connection string, or a pool of the application. The page has the rights of its role.
    writes:
        Whether the page can act: True or False for everybody, or a function of the request, such
        as ``lambda request: request.user.is_admin``.
    interval:
        How often to query the database while a browser shows the page, in seconds.

    The page has no login of its own: the application that it is mounted in decides who reaches it.

    >>> Mount("/queues", pgq.dashboard.app(dsn))  # doctest: +SKIP
    """
    return App(Database(database), Rules(writes), interval)


class App(Starlette):
    """The page of one database.

    The page works without lifespan events; where they exist, they call `close()` at the end.
    """

    def __init__(self, database: Database, guard: Rules, interval: float) -> None:
        self.database = database
        self.guard = guard
        self.feed = Feed(database, interval)
        self._files = _static()
        super().__init__(
            routes=[*self._looking(), *self._acting(), Route("/{name:path}", self._file)],
            exception_handlers={
                Refused: _refused,
                HTTPException: _http_error,
                psycopg.Error: _database_error,
                Exception: _failed,
            },
            lifespan=self._lifespan,
        )
        self.router.redirect_slashes = False

    def build_middleware_stack(self) -> ASGIApp:
        return _Safe(super().build_middleware_stack())

    async def close(self) -> None:
        """End all streams and close the connections."""
        self.feed.stop()
        await self.database.close()

    @staticmethod
    @asynccontextmanager
    async def _lifespan(app: Starlette) -> AsyncIterator[None]:
        assert isinstance(app, App)
        yield
        await app.close()

    def _looking(self) -> list[Route]:
        questions: Mapping[str, Answer] = {
            "queue": lambda r: self.database.queue(given(r, "name")),
            "leases": lambda r: self.database.leases(
                given(r, "queue"), maybe(r, "holder"), maybe(r, "client")
            ),
            "letters": self._letters,
            "letter": self._letter,
            "messages": self._messages,
            "traffic": self._traffic,
            "schedules": lambda r: self.database.schedules(),
            "consumers": lambda r: self.database.consumers(),
            "message": lambda r: self.database.message(number(given(r, "id"))),
        }
        return [
            Route("/api/about", self._question(self._about, public=True)),
            Route("/api/events", self._stream),
            *(Route(f"/api/{name}", self._question(answer)) for name, answer in questions.items()),
        ]

    def _acting(self) -> list[Route]:
        return [
            Route("/api/session", self._session, methods=["POST"]),
            Route("/api/filter", self._filter, methods=["POST"]),
            Route("/api/act/{verb}", self._act, methods=["POST"]),
        ]

    # Reading

    def _question(self, answer: Answer, *, public: bool = False) -> Callable[..., Any]:
        async def endpoint(request: Request) -> Response:
            self._admit(request, public=public)
            return _json(await answer(request))

        return endpoint

    def _admit(self, request: Request, *, public: bool = False) -> None:
        """Refuse a request that may not read."""
        self._require_host(request)
        if not self.guard.same_origin(request.headers):
            raise Refused(HTTPStatus.FORBIDDEN, "another page has asked for this")
        if not public and not self.guard.may_look(request.headers):
            raise Refused(HTTPStatus.UNAUTHORIZED, "the token is needed to look")

    def _require_host(self, request: Request) -> None:
        if not self.guard.knows_host(request.headers):
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "this page does not go by that name",
                "Name it with --allow-host.",
            )

    async def _file(self, request: Request) -> Response:
        self._require_host(request)
        file = self._files.get(request.path_params["name"])
        if file is None or request.method not in ("GET", "HEAD"):
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such page")
        known = request.headers.get("if-none-match") == file.tag
        return Response(
            b"" if known else file.content,
            HTTPStatus.NOT_MODIFIED if known else HTTPStatus.OK,
            {"ETag": file.tag, "Cache-Control": "no-cache", "Content-Type": file.kind},
        )

    async def _about(self, request: Request) -> dict[str, Any]:
        """Return the settings that the page needs first; none of them is secret."""
        about: dict[str, Any] = {
            "writes": self.guard.writes(request),
            "token": self.guard.token_needed,
            "private": self.guard.private,
            "reader": self.guard.may_look(request.headers),
            "client": __version__,
        }
        if about["reader"]:
            try:
                about |= await self.database.server()
            except psycopg.OperationalError:
                logger.debug("the name of the database is unknown", exc_info=True)
        return about

    async def _stream(self, request: Request) -> Response:
        """Stream events until the browser disconnects."""
        self._admit(request)
        if self.feed.full:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
        return StreamingResponse(
            self.feed.watch(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    async def _letters(self, request: Request) -> Any:
        before = maybe(request, "before")
        last = None if before is None else number(given(request, "number"))
        reason, error = maybe(request, "reason"), maybe(request, "error")
        ended = None if reason is None else cause(reason, error)
        found = await self.database.letters(
            maybe(request, "queue"), before, last, self._wanted(request), ended
        )
        return {**found, "cause": ended}

    def _wanted(self, request: Request) -> Wanted:
        return wanted(maybe(request, "by"), maybe(request, "find"))

    async def _messages(self, request: Request) -> Any:
        found = self._wanted(request)
        rows = await self.database.messages(given(request, "queue"), given(request, "state"), found)
        return {**rows, "filter": found.filter}

    async def _traffic(self, request: Request) -> Any:
        hours = given(request, "hours")
        if hours not in ("1", "3", "12"):
            refuse("hours are 1, 3 or 12")
        return await self.database.chart(given(request, "queue"), int(hours))

    async def _letter(self, request: Request) -> Any:
        found = await self.database.letter(given(request, "queue"), number(given(request, "id")))
        if found is None:
            raise Refused(
                HTTPStatus.NOT_FOUND,
                "this message is no dead letter any more",
                "Somebody has replayed or discarded it.",
            )
        return found

    # Acting

    async def _session(self, request: Request) -> Response:
        self._admit(request, public=True)
        require_json(request)
        self.guard.require_token(request)
        return _json({}, headers={"Set-Cookie": self.guard.session(request)})

    async def _filter(self, request: Request) -> Response:
        self._admit(request)
        body = await body_of(request)
        queue, document = text(body, "queue"), text(body, "filter")
        return _json(await self.database.explore(queue, document))

    async def _act(self, request: Request) -> Response:
        """Run a verb, or with `dry_run` only count."""
        self._admit(request, public=True)
        require_json(request)
        if not self.guard.writes(request):
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "this page is read-only",
                "Start it with: pgq dashboard --allow-writes",
            )
        self.guard.require_token(request)
        name = request.path_params["verb"]
        verb = VERBS.get(name)
        if verb is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such action")
        values = verb.values(await body_of(request))
        done, notices = await self.database.act(verb.statement, values)
        if not values.get("dry_run"):
            logger.info("%s: %s (%s)", name, done, _brief(values))
        return _json({"count": done, "notices": notices})


class _Safe:
    """Adds the security headers to every response."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._inner(scope, receive, safe)


@dataclass(frozen=True)
class _File:
    content: bytes
    kind: str
    tag: str


def _static() -> dict[str, _File]:
    """Return the files of the page by their names; no other files are served."""
    files = {}
    for entry in resources.files("pgq.dashboard").joinpath("static").iterdir():
        content = entry.read_bytes()
        kind = mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
        if kind.startswith("text/"):
            kind += "; charset=utf-8"
        tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        files[entry.name] = _File(content, kind, tag)
    files[""] = files.pop("index.html")
    return files


def _brief(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)


# Errors


def _json(
    value: Any, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    content = json.dumps(value, default=str).encode()
    return Response(content, status, headers, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    wanted = {"WWW-Authenticate": "Bearer"} if error.status == HTTPStatus.UNAUTHORIZED else None
    return _json({"error": {"message": str(error), "hint": error.hint}}, error.status, wanted)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": {"message": error.detail}}, HTTPStatus(error.status_code))


async def _database_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, psycopg.Error)
    return _json({"error": as_json(error)}, status_of(error))


async def _failed(request: Request, error: Exception) -> Response:
    return _json(
        {"error": {"message": "the page's server has failed; its log says how"}},
        HTTPStatus.INTERNAL_SERVER_ERROR,
    )
