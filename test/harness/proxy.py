"""A network that fails: a TCP proxy that cuts, freezes and refuses connections on request."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Link:
    """One connection through the proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.ends = (client, server)
        self.flowing = threading.Event()
        self.flowing.set()
        #: Bytes that the client was sent.
        self.received = 0

    def pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.flowing.wait()
                if target is self.ends[0]:
                    self.received += len(data)
                target.sendall(data)
        self.cut()

    def cut(self) -> None:
        self.flowing.set()
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Forwards connections to a port of this machine; `port` is where it listens."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.open = True
        self._links: list[Link] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.close()

    def close(self) -> None:
        """Cut every connection and refuse new ones, until `open` is set to True."""
        with self._lock:
            self.open = False
            for link in self._links:
                link.cut()
            self._links.clear()

    @property
    def received(self) -> int:
        """How many bytes all clients were sent."""
        with self._lock:
            return sum(link.received for link in self._links)

    def some(self, chance: random.Random, most: int) -> list[Link]:
        """Return connections chosen at random."""
        with self._lock:
            self._links = [link for link in self._links if link.ends[0].fileno() >= 0]
            return chance.sample(self._links, min(most, len(self._links)))

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            link = Link(client, server)
            with self._lock:
                if not self.open:
                    link.cut()
                    continue
                self._links.append(link)
            for source, target in (link.ends, link.ends[::-1]):
                threading.Thread(target=link.pump, args=(source, target), daemon=True).start()
