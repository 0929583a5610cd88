# Written by unasync.py from _async/batch.py: change that one.

"""The messages of one claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psycopg

from pgq._shared.arguments import Named
from pgq._shared.arguments import ids as ids_of
from pgq._shared.log import log, reason
from pgq.durations import Duration
from pgq.errors import PayloadError, PgqError
from pgq.message import Message
from pgq.payloads.serializers import read, reads_anything

if TYPE_CHECKING:
    from pgq._sync.client_claim import ClaimMethods

__all__ = ["Batch"]


class Batch:
    """The messages of one claim, under one lease.

    As a context manager it acknowledges the remaining messages when the block ends. A loop
    over the batch records the current message:

    - If the block raises, the messages before the current one are acknowledged, the current one is
      refused with the error, and those after it are released without counting an attempt.
    - If the loop is left early without an error, the current message is acknowledged too.
    - If the block raises outside of a loop, all remaining messages are refused. To work on all
      messages at once, loop over `messages`: that records nothing.

    A parameter `messages` accepts messages or ids; None means all remaining messages.

    >>> with client.claim("orders", n=10) as batch:
    ...     for message in batch:
    ...         ship(message.payload)
    """

    __slots__ = ("_at", "_client", "_left", "lease_id", "lease_until", "messages", "refused")

    def __init__(self, client: ClaimMethods, messages: list[Message]) -> None:
        self._client = client
        self._left: dict[int, Message] | None = None
        #: The index of the current message of a loop over the batch; None outside of a loop.
        self._at: int | None = None
        self.messages = messages
        #: How many messages failed the test `where` and were released, or could not be decoded.
        self.refused = 0
        self.lease_id: int | None = messages[0].lease_id if messages else None
        self.lease_until: datetime | None = messages[0].lease_until if messages else None

    def __iter__(self) -> Iterator[Message]:
        for index, message in enumerate(self.messages):
            self._at = index
            yield message
        self._at = None

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, index: int) -> Message:
        return self.messages[index]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.messages)}, lease {self.lease_id}>"

    @property
    def left(self) -> list[Message]:
        """The messages that are not yet acknowledged, refused, released or buried."""
        return list(self.messages if self._left is None else self._left.values())

    @property
    def unfinished(self) -> int | None:
        """The lease id, while messages are left; None when all have ended."""
        return self._named(None)[0]

    def finish(self) -> None:
        """Record that another call has acknowledged all remaining messages."""
        self._settle(None)

    def ack(self, messages: Named = None) -> int:
        """Acknowledge some messages, or all remaining ones."""
        lease_id, ids = self._named(messages)
        if lease_id is None:
            return 0
        count = self._client.ack(lease_id, ids)
        self._settle(ids)
        return count

    def nack(
        self,
        messages: Named = None,
        *,
        delay: Duration | None = None,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Refuse some messages, or all remaining ones: they are retried, or become dead letters.

        :param delay: the delay before the retry; None for the queue's backoff.
        :param error: the reason, as text for people.
        :param details: the reason, as JSON for programs.
        """
        lease_id, ids = self._named(messages)
        if lease_id is None:
            return 0
        count = self._client.nack(lease_id, ids, delay=delay, error=error, details=details)
        self._settle(ids)
        return count

    def release(
        self,
        messages: Named = None,
        *,
        delay: Duration = timedelta(0),
    ) -> int:
        """Release some messages, or all remaining ones, without counting the attempt."""
        lease_id, ids = self._named(messages)
        if lease_id is None:
            return 0
        count = self._client.release(lease_id, ids, delay=delay)
        self._settle(ids)
        return count

    def bury(
        self,
        messages: Named = None,
        *,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Make some messages dead letters, or all remaining ones."""
        lease_id, ids = self._named(messages)
        if lease_id is None:
            return 0
        count = self._client.bury(lease_id, ids, error=error, details=details)
        self._settle(ids)
        return count

    def extend(self, lease: Duration | None = None) -> datetime | None:
        """Extend the lease; return its new end."""
        lease_id, _ = self._named(None)
        if lease_id is not None:
            self.lease_until = self._client.extend(lease_id, lease)
        return self.lease_until

    def read(self, payload_type: Any) -> None:
        """Decode payloads by serializer and type; refuse messages whose payload does not fit."""
        if not self.messages or not reads_anything(payload_type):
            return
        fitting: list[Message] = []
        wrong: list[tuple[Message, str]] = []
        for message in self.messages:
            try:
                fitting.append(read(message, payload_type))
            except PayloadError as error:
                wrong.append((message, str(error)))
        for message, why in wrong:
            log(
                "ERROR",
                "message_unreadable",
                "message %s cannot be read",
                message.id,
                topic=message.topic,
                message_id=message.id,
                attempt=message.attempt,
                lease_id=message.lease_id,
            )
            self.refused += self.nack(message, error=f"PayloadError: {why}")
        self.messages = fitting
        if self._left is not None:
            self._left = {message.id: message for message in fitting}

    def keep(self, where: Callable[[Message], bool], *, delay: Duration) -> None:
        """Keep the messages that pass the test; release the others without counting the attempt."""
        try:
            kept = [message for message in self.messages if where(message)]
        except BaseException:
            self.release()
            raise
        if len(kept) < len(self.messages):
            wanted = {message.id for message in kept}
            refused = [message for message in self.messages if message.id not in wanted]
            self.refused += self.release(refused, delay=delay)
            self.messages = kept

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            self._give_back()
            self.ack()
            return
        try:
            self._end(exc)
        except (psycopg.Error, PgqError) as error:
            # Raise the error of the block, not this one.
            log(
                "WARNING",
                "messages_redelivered",
                "messages will be delivered again: %s",
                reason(error),
                lease_id=self.lease_id,
            )

    def _end(self, exc: BaseException) -> None:
        """End a block that has raised."""
        error = f"{type(exc).__name__}: {exc}" if isinstance(exc, Exception) else None
        if self._at is not None:
            self.ack(self._still(self.messages[: self._at]))
            if error is not None:
                self.nack(self._still([self.messages[self._at]]), error=error)
            self.release()
        elif error is not None:
            self.nack(error=error)
        else:
            self.release()

    def _give_back(self) -> None:
        """Release the messages that a loop did not reach before it was left."""
        if self._at is not None:
            self.release(self._still(self.messages[self._at + 1 :]))

    def _still(self, messages: list[Message]) -> list[Message]:
        """Return the given messages without those that have ended."""
        left = self._left
        return messages if left is None else [one for one in messages if one.id in left]

    def _named(self, messages: Named) -> tuple[int | None, list[int] | None]:
        """Return the lease id and the ids of messages; no lease id if there is nothing to end."""
        if messages is None:
            nothing = not self.messages if self._left is None else not self._left
            return (None if nothing else self.lease_id), None
        ids = ids_of(messages) or []
        return (self.lease_id if ids else None), ids

    def _settle(self, ids: list[int] | None) -> None:
        """Record that messages have ended; None for all."""
        if ids is None:
            self._left = {}
            return
        if self._left is None:
            self._left = {message.id: message for message in self.messages}
        for id in ids:
            self._left.pop(id, None)
