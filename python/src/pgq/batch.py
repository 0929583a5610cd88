# Written by unasync.py from batch_async.py: change that one.

"""What one claim has brought."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pgq.message import Message

if TYPE_CHECKING:
    from pgq.client import Client

__all__ = ["Batch"]


class Batch:
    """The messages of one claim, under one lease.

    As a context manager it acknowledges what is left when the block ends, and refuses it when the
    block raises.
    """

    __slots__ = ("_client", "_left", "lease_id", "lease_until", "messages", "refused")

    def __init__(self, client: Client, messages: list[Message]) -> None:
        self._client = client
        self._left: dict[int, Message] | None = None
        self.messages = messages
        #: How many messages the second stage of a claim has given back.
        self.refused = 0
        self.lease_id: int | None = messages[0].lease_id if messages else None
        self.lease_until: datetime | None = messages[0].lease_until if messages else None

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, index: int) -> Message:
        return self.messages[index]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.messages)}, lease {self.lease_id}>"

    @property
    def left(self) -> list[Message]:
        """The messages that are neither acknowledged nor given back."""
        return list(self.messages if self._left is None else self._left.values())

    @property
    def unfinished(self) -> int | None:
        """The lease, while it holds messages that are neither acknowledged nor given back."""
        return self._named(None)[0]

    def finish(self) -> None:
        """Note that all that was left has been acknowledged."""
        self._settle(None)

    def ack(self, messages: Message | Iterable[Message] | None = None) -> int:
        """Acknowledge some messages, or all that are left."""
        lease_id, ids = self._named(messages)
        if lease_id is None:
            return 0
        count = self._client.ack(lease_id, ids)
        self._settle(ids)
        return count

    def nack(
        self,
        messages: Message | Iterable[Message] | None = None,
        *,
        delay: timedelta | None = None,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Refuse some messages, or all that are left: they are retried, or become dead letters."""
        lease_id, ids = self._named(messages)
        if lease_id is None:
            return 0
        count = self._client.nack(lease_id, ids, delay=delay, error=error, details=details)
        self._settle(ids)
        return count

    def release(
        self,
        messages: Message | Iterable[Message] | None = None,
        *,
        delay: timedelta = timedelta(0),
    ) -> int:
        """Give some messages back, or all that are left, without counting the attempt."""
        lease_id, ids = self._named(messages)
        if lease_id is None:
            return 0
        count = self._client.release(lease_id, ids, delay=delay)
        self._settle(ids)
        return count

    def bury(
        self,
        messages: Message | Iterable[Message] | None = None,
        *,
        error: str | None = None,
        details: Any = None,
    ) -> int:
        """Make some messages dead letters, or all that are left."""
        lease_id, ids = self._named(messages)
        if lease_id is None:
            return 0
        count = self._client.bury(lease_id, ids, error=error, details=details)
        self._settle(ids)
        return count

    def extend(self, lease: timedelta | None = None) -> datetime | None:
        """Hold what is left for longer; return until when."""
        lease_id, _ = self._named(None)
        if lease_id is not None:
            self.lease_until = self._client.extend(lease_id, lease)
        return self.lease_until

    def keep(self, where: Callable[[Message], bool], *, delay: timedelta) -> None:
        """Keep the messages that pass the test; the others go back unharmed."""
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
            self.ack()
        elif isinstance(exc, Exception):
            self.nack(error=f"{type(exc).__name__}: {exc}")
        else:
            self.release()

    def _named(
        self, messages: Message | Iterable[Message] | None
    ) -> tuple[int | None, list[int] | None]:
        """Return the lease and the ids that are meant; no lease if there is nothing to do."""
        if messages is None:
            nothing = not self.messages if self._left is None else not self._left
            return (None if nothing else self.lease_id), None
        if isinstance(messages, Message):
            return self.lease_id, [messages.id]
        ids = [message.id for message in messages]
        return (self.lease_id if ids else None), ids

    def _settle(self, ids: list[int] | None) -> None:
        if ids is None:
            self._left = {}
            return
        if self._left is None:
            self._left = {message.id: message for message in self.messages}
        for id in ids:
            self._left.pop(id, None)
