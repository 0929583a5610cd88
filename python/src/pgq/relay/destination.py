"""What a relay forwards, and where to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol

__all__ = ["Busy", "Copy", "Destination", "NotNow"]


@dataclass(slots=True)
class Copy:
    """A message to be forwarded. Its JSON is the text that the database has, to the last digit."""

    lease_id: int
    id: int
    topic: str
    priority: int
    headers_json: str
    payload_json: str
    published_at: datetime
    sender: str | None = None
    recipient: str | None = None
    reply_to: str | None = None
    correlation_id: str | None = None
    group_key: str | None = None
    expires_at: datetime | None = None
    lease_until: datetime | None = None

    @property
    def headers(self) -> dict[str, Any]:
        """The headers."""
        found: dict[str, Any] = json.loads(self.headers_json)
        return found

    @property
    def payload(self) -> Any:
        """The payload."""
        return json.loads(self.payload_json)

    def document(self) -> str:
        """Return the message as one line of JSON, the same whenever it is asked for."""
        return (
            f'{{"id":{self.id},"topic":{_text(self.topic)},"priority":{self.priority}'
            f',"headers":{self.headers_json},"payload":{self.payload_json}'
            f',"sender":{_text(self.sender)},"recipient":{_text(self.recipient)}'
            f',"reply_to":{_text(self.reply_to)},"correlation_id":{_text(self.correlation_id)}'
            f',"group_key":{_text(self.group_key)},"published_at":{_moment(self.published_at)}'
            f',"expires_at":{_moment(self.expires_at)}}}'
        )


_encode = json.encoder.encode_basestring


def _text(value: str | None) -> str:
    return "null" if value is None else _encode(value)


def _moment(value: datetime | None) -> str:
    return "null" if value is None else f'"{value.isoformat()}"'


class Destination(Protocol):
    """Where copies go. One thread at a time uses it."""

    #: Where that is, for people: without passwords.
    label: str
    #: How many messages to send at once, and how many seconds to wait for so many.
    batch_size: int
    linger: float
    #: True: the same batch sent twice is there once, so after a failure the very same is sent
    #: again. False: after a failure its messages go back to the queue, and are sent with others.
    keeps_batches: ClassVar[bool]

    def send(self, batch: str, copies: Sequence[Copy]) -> Mapping[int, str]:
        """Send all copies; return the ids of those refused for what they say, and why.

        `batch` names what is sent: the same name, the same copies. Raises `Busy` to be called again
        later, and anything else if the destination cannot take them now.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class Busy(Exception):
    """The destination asks for time: not a failure."""

    def __init__(self, reason: str, *, delay: float = 1.0) -> None:
        super().__init__(reason)
        self.delay = delay


class NotNow(Exception):
    """The destination cannot take anything now."""
