"""A server of webhooks for tests of relays."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pgq.relay import Destination, open_destination


def until(condition: Callable[[], Any], what: str = "it") -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"{what} does not happen"
        time.sleep(0.02)


class Hook:
    """A server of webhooks with answers that the test sets; it keeps accepted requests."""

    def __init__(self) -> None:
        hook = self
        self.accepted: list[tuple[dict[str, str], bytes]] = []
        self.calls = 0
        self.answer: Callable[[Any], tuple[int, dict[str, str]]] = lambda body: (204, {})

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.calls += 1
                status, headers = hook.answer(json.loads(body))
                if status < 300:
                    hook.accepted.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                pass  # whoever called was killed

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook?a=1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def open(self) -> Destination:
        return open_destination(self.url, secret="geheim")

    def payloads(self) -> list[Any]:
        return [json.loads(body)["payload"] for _, body in self.accepted]
