"""A server of the S3 protocol on loopback, that can refuse writes, and be stopped and started."""

from __future__ import annotations

import gzip
import json
import logging
import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from io import BytesIO
from types import TracebackType
from typing import Any, Self

import fsspec
import pyarrow.parquet
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from harness.redis_server import free_port

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class ObjectStorage:
    """A server whose objects remain when it is stopped."""

    def __init__(self) -> None:
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        #: While set, every write is refused with this status.
        self.refusing: int | None = None
        self.refused = 0
        self._app: Any = DomainDispatcherApplication(create_backend_app)
        self._server: BaseWSGIServer | None = None
        logging.getLogger("werkzeug").setLevel(logging.ERROR)

    def start(self) -> Self:
        """Listen."""
        self._server = make_server("127.0.0.1", self.port, self._answer, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self) -> None:
        """Refuse connections."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def files(self, bucket: str) -> dict[str, bytes]:
        """Return the objects of a bucket by name."""
        return {name: self._system.cat_file(name) for name in sorted(self._system.find(bucket))}

    def make_bucket(self, name: str) -> None:
        """Make a bucket."""
        self._system.mkdir(name)

    @cached_property
    def _system(self) -> Any:
        return fsspec.filesystem(
            "s3",
            endpoint_url=self.endpoint,
            key="test",
            secret="test",
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if self.refusing is not None and environ["REQUEST_METHOD"] in ("PUT", "POST"):
            self.refused += 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start(f"{self.refusing} Refused", [("content-type", "application/xml")])
            return [b"<Error><Code>SlowDown</Code><Message>not now</Message></Error>"]
        answer: Iterable[bytes] = self._app(environ, start)
        return answer


def messages(name: str, data: bytes) -> list[dict[str, Any]]:
    """Return the messages of a file that a relay has written."""
    if name.endswith(".parquet"):
        rows = pyarrow.parquet.read_table(BytesIO(data)).to_pylist()
        return [row | {key: json.loads(row[key]) for key in ("headers", "payload")} for row in rows]
    text = gzip.decompress(data) if name.endswith(".gz") else data
    return [json.loads(line) for line in text.splitlines()]
