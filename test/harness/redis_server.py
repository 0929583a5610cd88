"""A real Redis server, Debian's, that can be killed and started again."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from harness import debian

PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblua5.1-0", "liblzf1", "lua-cjson")


def binary() -> tuple[Path, dict[str, str]]:
    """Return the server's program, and the environment that it needs."""
    tree = debian.unpack("redis", *PACKAGES)
    libraries = ":".join(str(path) for path in tree.glob("usr/lib/*-linux-gnu*"))
    return tree / "usr/bin/redis-server", os.environ | {"LD_LIBRARY_PATH": libraries}


def free_port() -> int:
    """Return an unused port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class RedisServer:
    """A Redis server; with `durable` it keeps acknowledged data when it is killed."""

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._directory = directory
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start, and wait until it answers."""
        program, environment = binary()
        log = ["--appendonly", "yes", "--appendfsync", "always"] if self._durable else []
        self._process = subprocess.Popen(
            [
                str(program),
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
                str(self._directory),
                *log,
            ],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while not self._answers():
            assert self._process.poll() is None, "the Redis server has ended"
            assert time.monotonic() < deadline, "the Redis server does not answer"
            time.sleep(0.01)
        return self

    def kill(self) -> None:
        """Kill it with -9."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as conn:
                conn.sendall(b"PING\r\n")
                return conn.recv(100).startswith(b"+PONG")
        except OSError:
            return False
