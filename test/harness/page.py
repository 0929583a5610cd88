"""Fixtures for tests of the page: a browser, pages of the test's database, plain requests."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psycopg
import pytest
from playwright.sync_api import Browser, Page, Request, expect

from harness import chromium, shop
from harness.server import Server
from pgq.dashboard import Dashboard, Guard

TOKEN = "a-token-for-tests-only"
T = TypeVar("T")

Serve = Callable[..., Dashboard]
Open = Callable[..., Page]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in its own thread: the browser has an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@pytest.fixture
def serve(dsn: str) -> Iterator[Serve]:
    """A function that serves the page of the test's database."""
    with ExitStack() as stack:

        def serve(address: str = dsn, *, port: int = 0, **rules: Any) -> Dashboard:
            guard = Guard(**{"token": TOKEN} | rules)
            page = Dashboard(address, port=port, guard=guard, interval=0.2)
            page.start()
            stack.callback(page.close)
            return page

        yield serve


@pytest.fixture(scope="session")
def served(server: Server, template: str) -> Iterator[Dashboard]:
    """The page of a database without queues, for tests of requests."""
    name = f"{template}_page"
    guard = Guard(token=TOKEN, hosts=["queues.example.com"])
    page = Dashboard(server.create_database(name, template=template), guard=guard)
    page.start()
    yield page
    page.close()
    server.drop_database(name)


@dataclass(frozen=True)
class Answer:
    """A response of the page's server."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    page: Dashboard,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str | None] | None = None,
) -> Answer:
    """Make a request as our page would; a header that is None is left out."""
    content = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
    given: dict[str, str | None] = {"Host": f"127.0.0.1:{page.port}"}
    if content is not None:
        given["Content-Type"] = "application/json"
        given["Content-Length"] = str(len(content))
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in (given | (headers or {})).items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(content.encode() if isinstance(content, str) else content or None)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


BEARER: dict[str, str | None] = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, one for all tests; a busy machine may take its time."""
    expect.set_options(timeout=20_000)
    with chromium.launch() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """A function that opens a page in the browser.

    Whatever the page does, it asks nobody but its own server, and no script of it fails.
    """
    problems: list[str] = []
    with ExitStack() as stack:

        def open_page(served: Dashboard, path: str = "#/", **options: Any) -> Page:
            context = browser.new_context(**{"locale": "en-GB"} | options)
            stack.callback(context.close)
            context.set_default_timeout(15_000)
            page = context.new_page()
            ours = urlsplit(served.url).netloc

            def look(request: Request) -> None:
                if urlsplit(request.url).netloc != ours:
                    problems.append(f"it has asked for {request.url}")

            page.on("request", look)
            page.on("pageerror", lambda error: problems.append(f"a script has failed: {error}"))
            page.on("console", lambda message: _hear(message.text, problems))
            page.goto(served.url + path)
            page.wait_for_selector(".pulse.live")
            return page

        yield open_page
    assert problems == [], problems


def _hear(text: str, problems: list[str]) -> None:
    """Record an error of the page; refused requests are part of some tests."""
    if "Failed to load resource" not in text and "ERR_" not in text:
        problems.append(f"the browser has complained: {text}")


@pytest.fixture
def night(db: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """The test's database with queues in every state."""
    shop.build(db)
    return db
