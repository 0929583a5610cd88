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

from pgq.relay.destination import Busy, NotNow, Record

__all__ = ["Webhook", "signature"]

# Status codes that refuse the content of a message. Any other status that is not 2xx means a
# problem of the server (down, moved, other credentials): the message waits.
_REFUSALS = frozenset([400, 406, 409, 411, 413, 414, 415, 422, 431, 451])
# Status codes that may mean either: the message is refused if the server answered others normally.
_DOUBTFUL = frozenset([500, 501])


def signature(secret: bytes, id: str, timestamp: str, body: bytes) -> str:
    """Return the header ``webhook-signature`` of standardwebhooks.com."""
    signed = hmac.new(secret, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


class Webhook:
    """Posts each message as JSON, signed; the header ``webhook-id`` is the message's id.

    :param secret: the key of the signature; after a prefix ``whsec_`` it is base64.
    :param concurrency: the maximum number of concurrent requests. An ordering group delivers one
        message at a time.
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
        # Ids of delivered messages of a batch that failed in part: do not send them again.
        self._delivered: set[int] = set()

    def send(self, batch: str, records: Sequence[Record]) -> Mapping[int, str]:
        """Post each record; return those that the server refuses."""
        waiting = [record for record in records if record.id not in self._delivered]
        refused: dict[int, str] = {}
        doubtful: dict[int, str] = {}
        passed: set[int] = set()
        failure: Exception | None = None
        for record, answer in zip(waiting, self._threads.map(self._try, waiting), strict=True):
            if isinstance(answer, Exception):
                failure = answer
            elif answer.is_success:
                passed.add(record.id)
            elif answer.status_code in _REFUSALS:
                refused[record.id] = _error_text(answer)
            elif answer.status_code in _DOUBTFUL:
                doubtful[record.id] = _error_text(answer)
            else:
                failure = _failure(answer)
        if failure is None and doubtful and not passed and not refused:
            failure = NotNow(next(iter(doubtful.values())))
        if failure is not None:
            self._delivered |= passed
            raise failure
        self._delivered.clear()
        return refused | doubtful

    def close(self) -> None:
        """Disconnect."""
        self._threads.shutdown()
        self._client.close()

    def _try(self, record: Record) -> httpx.Response | Exception:
        id, now, body = str(record.id), str(int(time.time())), record.document().encode()
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


def _error_text(answer: httpx.Response) -> str:
    return f"HTTP {answer.status_code}: {answer.text[:500]}".rstrip(": ")


def _failure(answer: httpx.Response) -> Exception:
    after = answer.headers.get("retry-after", "")
    if answer.status_code in (429, 503) and after.isdecimal():
        return Busy(_error_text(answer), delay=min(float(after), 300.0))
    return NotNow(_error_text(answer))
