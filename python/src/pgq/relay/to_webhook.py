"""Webhooks: a signed POST for each message."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import httpx

from pgq.relay.destination import Busy, Copy, NotNow

__all__ = ["Webhook", "signature"]

# What a server says of a message. Everything else that is not 2xx it says of itself: it is down, or
# elsewhere, or wants other credentials, and the message waits.
_REFUSALS = frozenset([400, 406, 409, 411, 413, 414, 415, 422, 431, 451])
# What may be due to either; it is the message if the server judges others.
_DOUBTFUL = frozenset([500, 501])


def signature(secret: bytes, id: str, timestamp: str, body: bytes) -> str:
    """Return the header ``webhook-signature``, as standardwebhooks.com has it."""
    signed = hmac.new(secret, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


class Webhook:
    """Posts each message as JSON, signed; the header ``webhook-id`` is the message's id.

    :param secret: the key of the signature; one that begins with ``whsec_`` is base64 after that.
    :param concurrency: how many requests at once; messages of one ordering group never are.
    """

    keeps_batches: ClassVar[bool] = False
    batch_size = 100
    linger = 0.0

    def __init__(
        self,
        url: str,
        *,
        secret: str,
        concurrency: int = 4,
        timeout: float = 30.0,
        label: str = "",
    ) -> None:
        if not secret:
            raise ValueError("a webhook needs a secret to sign with")
        self.label = label or "webhook"
        self._url = url
        prefix, _, rest = secret.partition("whsec_")
        self._secret = base64.b64decode(rest) if rest and not prefix else secret.encode()
        self._client = httpx.Client(timeout=timeout, follow_redirects=False)
        self._threads = ThreadPoolExecutor(concurrency, "pgq-webhook")
        # Delivered in a batch of which others were not: not again when they come back.
        self._delivered: set[int] = set()

    def send(self, batch: str, copies: Sequence[Copy]) -> Mapping[int, str]:
        """Post each copy; return those that the server refuses."""
        waiting = [copy for copy in copies if copy.id not in self._delivered]
        refused: dict[int, str] = {}
        doubtful: dict[int, str] = {}
        passed: set[int] = set()
        trouble: Exception | None = None
        for copy, answer in zip(waiting, self._threads.map(self._try, waiting), strict=True):
            if isinstance(answer, Exception):
                trouble = answer
            elif answer.is_success:
                passed.add(copy.id)
            elif answer.status_code in _REFUSALS:
                refused[copy.id] = _said(answer)
            elif answer.status_code in _DOUBTFUL:
                doubtful[copy.id] = _said(answer)
            else:
                trouble = _trouble(answer)
        if trouble is None and doubtful and not passed and not refused:
            trouble = NotNow(next(iter(doubtful.values())))
        if trouble is not None:
            self._delivered |= passed
            raise trouble
        self._delivered.clear()
        return refused | doubtful

    def close(self) -> None:
        """Disconnect."""
        self._threads.shutdown()
        self._client.close()

    def _try(self, copy: Copy) -> httpx.Response | Exception:
        id, now, body = str(copy.id), str(int(time.time())), copy.document().encode()
        headers = {
            "content-type": "application/json",
            "webhook-id": id,
            "webhook-timestamp": now,
            "webhook-signature": signature(self._secret, id, now, body),
        }
        try:
            return self._client.post(self._url, content=body, headers=headers)
        except httpx.HTTPError as error:
            return NotNow(f"{type(error).__name__}: {error}")


def _said(answer: httpx.Response) -> str:
    return f"HTTP {answer.status_code}: {answer.text[:500]}".rstrip(": ")


def _trouble(answer: httpx.Response) -> Exception:
    after = answer.headers.get("retry-after", "")
    if answer.status_code in (429, 503) and after.isdecimal():
        return Busy(_said(answer), delay=min(float(after), 300.0))
    return NotNow(_said(answer))
