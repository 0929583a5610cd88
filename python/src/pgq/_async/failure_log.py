"""Log records about failed deliveries, and the outcome for the message."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from pgq._shared.log import log
from pgq.errors import HandlerTimeout, PgqError
from pgq.message import Message

if TYPE_CHECKING:
    from pgq._async.client_pooled import AsyncPooledClient

__all__ = ["AsyncFailureLog"]

# How long the policy of a queue is cached.
_POLICY_SECONDS = 60.0


class _Outcome:
    """The outcome of a failed delivery: a retry, or a dead letter."""

    def __init__(self, message: Message, most: int | None, died: bool, delay: float | None) -> None:
        self.attempt = f"{message.attempt}" if most is None else f"{message.attempt} of {most}"
        self.died = died
        self.fields: dict[str, Any] = {"max_attempts": most, "retry_in": delay}
        if died:
            self.text = "now a dead letter"
        else:
            self.text = "retried" if delay is None else f"retried within {delay:g} s"


class AsyncFailureLog:
    """Logs failed deliveries: attempt, max_attempts, next delay, dead letter."""

    def __init__(self, client: AsyncPooledClient, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._policy: dict[str, Any] | None = None
        self._policy_until = 0.0

    def fields(
        self, message: Message, began: float, fate: _Outcome | None = None
    ) -> dict[str, Any]:
        """Return the fields of every log record about a message."""
        return {
            **({} if fate is None else fate.fields),
            "queue": self._queue,
            "topic": message.topic,
            "message_id": message.id,
            "attempt": message.attempt,
            "lease_id": message.lease_id,
            "duration": round(time.monotonic() - began, 6),
        }

    async def log_failed(self, message: Message, began: float, error: BaseException) -> None:
        """Log that a handler has raised, or that it takes too long."""
        fate = await self._fate(message, None)
        if isinstance(error, HandlerTimeout):
            log(
                "ERROR",
                "handler_timed_out",
                "the handler of %s takes too long with message %s, attempt %s: %s",
                self._queue,
                message.id,
                fate.attempt,
                fate.text,
                **self.fields(message, began, fate),
            )
        else:
            log(
                "ERROR",
                "message_failed",
                "the handler of %s failed with message %s, attempt %s: %s",
                self._queue,
                message.id,
                fate.attempt,
                fate.text,
                exc_info=error,
                **self.fields(message, began, fate),
            )
        self._log_death(message, began, fate)

    async def log_retried(self, message: Message, began: float, delay: timedelta | None) -> None:
        """Log that a handler has raised `Retry`."""
        fate = await self._fate(message, delay)
        log(
            "INFO",
            "message_retried",
            "the handler of %s retries message %s, attempt %s: %s",
            self._queue,
            message.id,
            fate.attempt,
            fate.text,
            **self.fields(message, began, fate),
        )
        self._log_death(message, began, fate)

    async def log_rejected(self, message: Message, began: float) -> None:
        """Log that a handler has raised `Reject`."""
        most = await self._max_attempts()
        fate = _Outcome(message, most, True, None)
        log(
            "INFO",
            "message_rejected",
            "the handler of %s rejects message %s, attempt %s: %s",
            self._queue,
            message.id,
            fate.attempt,
            fate.text,
            **self.fields(message, began, fate),
        )
        self._log_death(message, began, fate)

    def _log_death(self, message: Message, began: float, fate: _Outcome) -> None:
        if fate.died:
            log(
                "ERROR",
                "message_died",
                "message %s of %s is a dead letter after attempt %s",
                message.id,
                self._queue,
                fate.attempt,
                **self.fields(message, began, fate),
            )

    async def _fate(self, message: Message, delay: timedelta | None) -> _Outcome:
        most = await self._max_attempts()
        died = await self._has_died(message) if most is None else message.attempt >= most
        if died:
            return _Outcome(message, most, True, None)
        return _Outcome(
            message, most, False, self._longest(message) if delay is None else _s(delay)
        )

    def _longest(self, message: Message) -> float | None:
        """Return the queue's backoff in seconds; pgq.nack delays by half of it to all of it."""
        if self._policy is None:
            return None
        doubled = _s(self._policy["backoff"]) * 2.0 ** min(message.attempt - 1, 62)
        return min(doubled, _s(self._policy["max_backoff"]))

    async def _max_attempts(self) -> int | None:
        """Return `max_attempts` of the queue; None if the role may not read the policy."""
        if time.monotonic() >= self._policy_until:
            self._policy_until = time.monotonic() + _POLICY_SECONDS
            try:
                self._policy = await self._client.queue_policy(self._queue)
            except (psycopg.Error, PgqError):  # a role that may only consume
                self._policy = None
        return None if self._policy is None else int(self._policy["max_attempts"])

    async def _has_died(self, message: Message) -> bool:
        try:
            return await self._client.dead_letter(self._queue, message.id) is not None
        except (psycopg.Error, PgqError):
            return False


def _s(span: timedelta) -> float:
    return span.total_seconds()
