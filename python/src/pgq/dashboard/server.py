"""The page with its own server: uvicorn in a thread."""

from __future__ import annotations

import asyncio
import socket
import time
from threading import Thread

import psycopg
import uvicorn

from pgq.dashboard import _sql
from pgq.dashboard.app import App
from pgq.dashboard.data import Database
from pgq.dashboard.guard import Guard

__all__ = ["Dashboard"]

_MOST_CONNECTIONS = 64
_KEEP_ALIVE = 15
_GRACE = 3


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
        self.app = App(Database(dsn), self.guard, interval)
        self._socket = _listen(host, port)
        self.host, self.port = self._socket.getsockname()[:2]
        try:
            # Fail here if the database cannot be reached.
            with psycopg.connect(dsn, connect_timeout=10) as conn:
                conn.execute(_sql.SERVER)
        except BaseException:
            self._socket.close()
            raise
        config = uvicorn.Config(
            self.app,
            http="h11",
            loop="asyncio",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            headers=[("Server", "pgq")],
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=_GRACE,
        )
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = Thread(target=self._serve, name="pgq-dashboard", daemon=True)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"

    def start(self) -> None:
        """Serve, in a thread of its own."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def _serve(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.serve(sockets=[self._socket])

        asyncio.run(serve())

    def close(self) -> None:
        """Stop serving; streams end."""
        self._server.should_exit = True
        if self._loop is not None and self._thread.is_alive():
            # End the streams first: the server waits for open connections.
            self._loop.call_soon_threadsafe(self.app.feed.stop)
        self._thread.join(2 * _GRACE)
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
