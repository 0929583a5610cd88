"""Destinations by their address."""

from __future__ import annotations

import os
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from pgq.durations import Duration, duration
from pgq.relay.destination import Destination
from pgq.relay.memory import Memory
from pgq.relay.to_files import Directory, Files, Objects
from pgq.relay.to_pgq import Pgq

__all__ = ["open_destination"]

_EXTRAS = {"redis": "redis", "httpx": "webhook", "s3fs": "s3", "pyarrow": "parquet"}


def open_destination(
    url: str,
    *,
    queue: str = "messages",
    relay: str = "relay",
    timeout: Duration = timedelta(seconds=30),
    secret: str | None = None,
) -> Destination:
    """Return the destination for an address; it connects later.

    - ``redis://HOST/DB?stream=KEY&channel=NAME&keep=N&limit=N``, also ``rediss:`` and ``unix:``
    - ``file:///DIRECTORY?format=parquet&compression=zstd``
    - ``s3://BUCKET/PREFIX?format=...&compression=...``, or any other scheme of fsspec
    - ``postgresql://HOST/DATABASE?topic=TOPIC``
    - ``https://...``, signed with `secret`, or with PGQ_WEBHOOK_SECRET
    - ``memory:``

    :param url: the address.
    :param queue: the queue that is relayed; streams and files are named after it.
    :param relay: the name of the relay.
    :param timeout: how long one `send` may take.
    :param secret: the key that webhooks are signed with.
    """
    parts = urlsplit(url)
    try:
        scheme = parts.scheme.lower()
        seconds = duration(timeout, "timeout").total_seconds()
        if seconds <= 0:
            raise ValueError("timeout must be longer than zero")
        options = dict(parse_qsl(parts.query))
        common: dict[str, Any] = {"label": _label(parts), "timeout": seconds}
        if scheme in ("redis", "rediss", "unix"):
            return _redis(url, options, queue, {**common, "relay": f"{queue}/{relay}"})
        if scheme in ("postgresql", "postgres"):
            topic = options.pop("topic", None)
            return Pgq(_without(url, options), topic=topic, relay=f"{queue}/{relay}", **common)
        if scheme in ("http", "https"):
            webhook = import_module("pgq.relay.to_webhook").Webhook
            secret = secret or os.environ.get("PGQ_WEBHOOK_SECRET", "")
            found: Destination = webhook(url, secret=secret, **common)
            return found
        if scheme == "memory":
            return Memory()
        if scheme:
            return _files(parts, options, queue, common)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        hint = f"pip install 'pgq-client[{extra}]'" if extra else f"{parts.scheme}: needs it"
        raise ValueError(f"a package is missing: {error.name} ({hint})") from None
    raise ValueError(f"not an address: {url!r}; write redis://, s3://, file://, postgresql://")


def _redis(url: str, options: dict[str, str], queue: str, common: dict[str, Any]) -> Destination:
    channel = options.pop("channel", None)
    stream = options.pop("stream", None if channel else queue)
    numbers = {name: _number(name, options.pop(name, "0")) for name in ("keep", "limit")}
    found: Destination = import_module("pgq.relay.to_redis").Redis(
        _without(url, options), stream=stream, channel=channel, **numbers, **common
    )
    return found


def _files(
    parts: SplitResult, options: dict[str, str], queue: str, common: dict[str, Any]
) -> Destination:
    layout: dict[str, Any] = {"name": queue, "label": common["label"]}
    for name in ("format", "compression"):
        if name in options:
            layout[name] = options.pop(name)
    store: Directory | Objects
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
        if parts.netloc not in ("", "localhost") or not path.is_absolute() or options:
            raise ValueError("write file:///DIRECTORY, with format and compression if need be")
        store = Directory(path)
    else:
        if not parts.netloc:
            raise ValueError(f"{parts.scheme}:// needs a bucket")
        path_in = f"{parts.netloc}{unquote(parts.path)}"
        store = Objects(parts.scheme, path_in, timeout=common["timeout"], **options)
    return Files(store, **layout)


def _without(url: str, options: dict[str, str]) -> str:
    """Return an address with only these options."""
    base = url.partition("?")[0]
    return f"{base}?{urlencode(options)}" if options else base


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name} is a number of entries, not {text!r}")
    return int(text)


def _label(parts: SplitResult) -> str:
    """Return an address without secrets, such as the path of a webhook."""
    host = parts.netloc.rpartition("@")[2]
    path = "" if parts.scheme in ("http", "https") else parts.path
    return f"{parts.scheme}://{host}{path}"
