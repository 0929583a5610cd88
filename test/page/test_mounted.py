"""The page mounted in an ASGI application, behind its login."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request as Ask
from urllib.request import urlopen

import psycopg
import pytest
import uvicorn
from playwright.sync_api import Browser, expect
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from harness.page import run
from pgq.dashboard import app

Conn = psycopg.Connection[Any]


class Login:
    """The login of an application: requests without a name are refused."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = dict(scope.get("headers", ())).get(b"x-user")
        if scope["type"] == "http" and user is None:
            await PlainTextResponse("log in first", 401)(scope, receive, send)
        else:
            await self._inner({**scope, "user": user}, receive, send)


@contextmanager
def running(page: ASGIApp) -> Iterator[str]:
    """Serve an application that has the page below /ops/queues; give the address of the page."""
    outer = Starlette(routes=[Mount("/ops/queues", page)], middleware=[Middleware(Login)])
    config = uvicorn.Config(outer, port=0, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/ops/queues"
    finally:
        server.should_exit = True
        thread.join(10)


def test_it_uses_the_pool_of_an_application(db: Conn, dsn: str) -> None:
    db.execute("select pgq.create_queue('orders')")

    async def check() -> None:
        async with AsyncConnectionPool(dsn, min_size=1, max_size=2, open=False) as pool:
            page = app(pool)
            assert [row["queue"] for row in (await page.database.sample())["queues"]] == ["orders"]
            with pytest.raises(psycopg.Error, match="no such"):
                await page.database.queue("no such")
            # The settings of the page end with its transactions.
            async with pool.connection() as conn:
                found = await (await conn.execute("show transaction_read_only")).fetchone()
                assert found == ("off",)
            await page.close()

    run(check())
    with pytest.raises(TypeError, match="AsyncConnectionPool"):
        app(ConnectionPool(dsn, open=False))  # type: ignore[arg-type]


def test_it_is_mounted_behind_the_login_of_an_application(
    db: Conn, dsn: str, browser: Browser
) -> None:
    db.execute("select pgq.create_queue('orders')")
    db.execute("select pgq.publish('orders', '1')")
    (lease,) = db.execute("select lease_id from pgq.claim('orders')").fetchone() or (0,)
    db.execute("select pgq.bury(%s, error => 'no')", [lease])
    page = app(dsn, writes=lambda request: request.scope["user"] == b"boss", interval=0.2)
    with running(page) as url:
        with pytest.raises(HTTPError, match="401"):
            urlopen(url)
        # Known users may read, and some may act: the application decides.
        body = b'{"queue": "orders", "all": true}'
        kind = {"Content-Type": "application/json"}
        with pytest.raises(HTTPError, match="403"):
            urlopen(Ask(f"{url}/api/act/discard", body, kind | {"X-User": "guest"}))
        foreign = {"X-User": "boss", "Sec-Fetch-Site": "cross-site"}
        with pytest.raises(HTTPError, match="403"):
            urlopen(Ask(f"{url}/api/act/discard", body, kind | foreign))
        with browser.new_context(extra_http_headers={"X-User": "boss"}) as context:
            tab = context.new_page()
            tab.goto(url + "#/letters?queue=orders")
            tab.get_by_role("button", name="Replay all").click()
            tab.get_by_role("dialog").get_by_role("button", name="Replay").click()
            expect(tab.locator(".toast")).to_contain_text("1 dead letter replayed")
            tab.goto(url + "/#/")
            expect(tab.locator("table.queues tbody th")).to_contain_text("orders")
    assert db.execute("select ready from pgq.queue_stats").fetchone() == (1,)
