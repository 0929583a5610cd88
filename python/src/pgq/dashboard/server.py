"""The web server of the page: static files, questions, actions and a stream of news."""

from __future__ import annotations

import hashlib
import json
import logging
import mimetypes
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from threading import BoundedSemaphore, Thread
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

import psycopg

from pgq import __version__
from pgq.dashboard.data import Database
from pgq.dashboard.feed import Feed
from pgq.dashboard.guard import HEADERS, Guard
from pgq.dashboard.said import said, status

__all__ = ["Dashboard"]

logger = logging.getLogger("pgq.dashboard")

_MOST_BYTES = 128 * 1024
_MOST_CONNECTIONS = 64
_MOST_WATCHERS = 32
_MOST_IDS = 1000
_BIGINT = range(1, 2**63)
# How long a browser may take to ask or to read, and how often a quiet stream says that it lives.
_PATIENCE = 15
_PULSE = 10


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.hint = hint


@dataclass(frozen=True)
class _File:
    content: bytes
    kind: str
    tag: str


def _static() -> dict[str, _File]:
    """Return the files of the page by their paths; there are no others to be had."""
    files = {}
    for entry in resources.files("pgq.dashboard").joinpath("static").iterdir():
        content = entry.read_bytes()
        kind = mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
        if kind.startswith("text/"):
            kind += "; charset=utf-8"
        tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        files[f"/{entry.name}"] = _File(content, kind, tag)
    files["/"] = files.pop("/index.html")
    return files


class Dashboard:
    """The page of one database, served until it is closed."""

    def __init__(
        self,
        dsn: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        guard: Guard | None = None,
        interval: float = 2.0,
    ) -> None:
        self.guard = guard or Guard()
        self.database = Database(dsn)
        self.feed = Feed(self.database, interval)
        self.files = _static()
        self.watchers = BoundedSemaphore(_MOST_WATCHERS)
        self._server = _Server((host, port), self)
        self.host, self.port = self._server.address
        try:
            self.server_facts = self.database.server()
        except BaseException:
            self._server.server_close()
            raise
        self._thread = Thread(target=self._serve, name="pgq-dashboard", daemon=True)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"

    def start(self) -> None:
        """Serve, in threads of its own."""
        self.feed.start()
        self._thread.start()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)

    def close(self) -> None:
        """Stop serving; streams end."""
        self.feed.stop()
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()
        self.database.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], dashboard: Dashboard) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.dashboard = dashboard
        self._places = BoundedSemaphore(_MOST_CONNECTIONS)
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the name service who we are.
        if self.allow_reuse_address:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.address

    @property
    def address(self) -> tuple[str, int]:
        return str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)
            self._places.release()

    def hang_up(self) -> None:
        """End the connections that browsers keep for their next request."""
        for request in list(self._open):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("a connection has failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE
    # Headers and body in one packet, and no wait for what is behind them.
    wbufsize = -1
    disable_nagle_algorithm = True

    def version_string(self) -> str:
        return "pgq"

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no proper request; nothing of it is repeated."""
        self.close_connection = True
        with suppress(OSError):
            self._answer(HTTPStatus(code), {"error": {"message": HTTPStatus(code).phrase}})

    def do_GET(self) -> None:
        self._handle(self._get)

    def do_HEAD(self) -> None:
        self._handle(self._get)

    def do_POST(self) -> None:
        self._handle(self._post)

    def _handle(self, answer: Callable[[str], None]) -> None:
        """Answer a request, or say why not."""
        path = urlsplit(self.path).path
        if self.command != "POST" and self._has_body():
            self.close_connection = True  # what is not read must not become the next request
        try:
            if not self._guard.knows_host(self.headers):
                raise Refused(
                    HTTPStatus.MISDIRECTED_REQUEST,
                    "this page does not go by that name",
                    "Name it with --allow-host.",
                )
            answer(path)
        except Refused as error:
            # What was sent with it has not been read.
            self.close_connection = self.close_connection or self.command == "POST"
            self._answer(error.status, {"error": {"message": str(error), "hint": error.hint}})
        except psycopg.Error as error:
            self._answer(status(error), {"error": said(error)})
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception:
            logger.exception("a request has failed")
            self.close_connection = True
            self._answer(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                {"error": {"message": "the page's server has failed; its log says how"}},
            )

    @property
    def _page(self) -> Dashboard:
        assert isinstance(self.server, _Server)
        return self.server.dashboard

    @property
    def _guard(self) -> Guard:
        return self._page.guard

    # Looking

    def _get(self, path: str) -> None:
        if file := self._page.files.get(path):
            self._send_file(file)
            return
        if not path.startswith("/api/"):
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such page")
        self._require_origin()
        if path == "/api/about":
            self._answer(HTTPStatus.OK, self._about())
            return
        self._require_reader()
        if path == "/api/events":
            self._stream()
            return
        questions: Mapping[str, Callable[[], Any]] = {
            "/api/queue": lambda: self._page.database.queue(self._given("name")),
            "/api/leases": self._leases,
            "/api/letters": self._letters,
            "/api/letter": self._letter,
            "/api/message": lambda: self._page.database.message(self._id("id")),
        }
        if path not in questions:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such question")
        self._answer(HTTPStatus.OK, questions[path]())

    def _about(self) -> dict[str, Any]:
        """What the page has to know before anything else; nothing of it is secret."""
        about: dict[str, Any] = {
            "writes": self._guard.writes,
            "private": self._guard.private,
            "reader": self._guard.may_look(self.headers),
            "client": __version__,
        }
        if about["reader"]:
            about |= self._page.server_facts
        return about

    def _leases(self) -> Any:
        return self._page.database.leases(
            self._given("queue"), self._maybe("holder"), self._maybe("client")
        )

    def _letters(self) -> Any:
        before = self._maybe("before")
        number = None if before is None else self._id("number")
        return self._page.database.letters(self._maybe("queue"), before, number)

    def _letter(self) -> Any:
        found = self._page.database.letter(self._given("queue"), self._id("id"))
        if found is None:
            raise Refused(
                HTTPStatus.NOT_FOUND,
                "this message is no dead letter any more",
                "Somebody has replayed or discarded it.",
            )
        return found

    def _stream(self) -> None:
        """Send news until the browser goes away."""
        feed = self._page.feed
        if not self._page.watchers.acquire(blocking=False):
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
        self.close_connection = True
        feed.enter()
        try:
            self._begin(HTTPStatus.OK, "text/event-stream; charset=utf-8")
            self.send_header("Connection", "close")
            self.end_headers()
            # A browser whose server is gone tries again after this time.
            self._event(f"retry: 1000\nevent: past\ndata: {feed.past()}\n\n")
            number = 0
            while not feed.stopped:
                number, news = feed.wait(number, _PULSE)
                self._event(": alive\n\n" if news is None else f"data: {news}\n\n")
        finally:
            feed.leave()
            self._page.watchers.release()

    def _event(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()

    # Acting

    def _post(self, path: str) -> None:
        self._require_origin()
        if self.headers.get_content_type() != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the request is not JSON")
        if path == "/api/session":
            self._require_token()
            self._body()
            self._answer(HTTPStatus.OK, {}, {"Set-Cookie": self._guard.cookie(self._page.port)})
        elif path == "/api/filter":
            self._require_reader()
            body = self._body()
            queue, document = _text(body, "queue"), _text(body, "filter")
            self._answer(HTTPStatus.OK, self._page.database.explore(queue, document))
        elif path in ("/api/replay", "/api/discard"):
            self._act(path.removeprefix("/api/"))
        else:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such action")

    def _act(self, what: str) -> None:
        if not self._guard.writes:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "this page is read-only",
                "Start it with: pgq dashboard --allow-writes",
            )
        self._require_token()
        body = self._body()
        queue, ids = _text(body, "queue"), _ids(body)
        count = self._page.database.act(what, queue, ids)
        logger.info("%s of %s dead letters of %s", what, count, queue)
        self._answer(HTTPStatus.OK, {"count": count})

    # What may be refused

    def _require_origin(self) -> None:
        if not self._guard.same_origin(self.headers):
            raise Refused(HTTPStatus.FORBIDDEN, "another page has asked for this")

    def _require_reader(self) -> None:
        if not self._guard.may_look(self.headers):
            raise Refused(HTTPStatus.UNAUTHORIZED, "the token is needed to look")

    def _require_token(self) -> None:
        if not self._guard.has_token(self.headers):
            raise Refused(
                HTTPStatus.UNAUTHORIZED,
                "the token is missing or wrong",
                "The command pgq dashboard has printed it when it started.",
            )

    def _has_body(self) -> bool:
        return "Transfer-Encoding" in self.headers or "Content-Length" in self.headers

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "the length of the request is missing")
        if int(length) > _MOST_BYTES:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {_MOST_BYTES // 1024} kB"
            )
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            _refuse("the request is no JSON object")
        return body

    # The parts of a question

    def _maybe(self, name: str) -> str | None:
        found = parse_qs(urlsplit(self.path).query, max_num_fields=20).get(name, [])
        return _clean(found[0], name) if found else None

    def _given(self, name: str) -> str:
        found = self._maybe(name)
        return _refuse(f"{name} is missing") if found is None else found

    def _id(self, name: str) -> int:
        return _number(self._given(name))

    # Answers

    def _begin(self, status: HTTPStatus, kind: str) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        if not kind.startswith(("text/html", "text/css", "text/javascript", "image/")):
            self.send_header("Cache-Control", "no-store")

    def _answer(
        self, status: HTTPStatus, value: Any, more: Mapping[str, str] | None = None
    ) -> None:
        content = json.dumps(value, default=str).encode()
        self._begin(status, "application/json")
        for name, text in (more or {}).items():
            self.send_header(name, text)
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self._finish(content)

    def _send_file(self, file: _File) -> None:
        known = self.headers.get("If-None-Match") == file.tag
        self._begin(HTTPStatus.NOT_MODIFIED if known else HTTPStatus.OK, file.kind)
        self.send_header("ETag", file.tag)
        self.send_header("Cache-Control", "no-cache")
        if known:
            self.end_headers()
        else:
            self._finish(file.content)

    def _finish(self, content: bytes) -> None:
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _refuse(message: str) -> NoReturn:
    raise Refused(HTTPStatus.BAD_REQUEST, message)


def _clean(text: str, name: str) -> str:
    """Return a text as PostgreSQL can have it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(f"{name} is no text")
    return _refuse(f"{name} has a zero byte") if "\0" in text else text


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return _clean(value, name) if isinstance(value, str) else _refuse(f"{name} is missing")


def _ids(body: Mapping[str, Any]) -> list[int] | None:
    """Return the messages that are named; null only if all of them are wanted, by that word."""
    given = body.get("ids")
    if given is None and body.get("all") is True:
        return None
    if not isinstance(given, list) or not 1 <= len(given) <= _MOST_IDS:
        _refuse(f"ids must be a list of 1 to {_MOST_IDS} messages")
    return [_number(each) for each in given]


def _number(given: Any) -> int:
    text = str(given)
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) in _BIGINT):
        _refuse("a message is named by a positive number")
    return int(text)
