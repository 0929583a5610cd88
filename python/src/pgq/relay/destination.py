"""Records that a relay forwards, and the protocol of destinations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol

__all__ = ["Busy", "Destination", "NotNow", "Record"]


@dataclass(slots=True)
class Record:
    """A message to be forwarded. Its JSON is the exact text in the database."""

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
        """Return the message as one line of JSON; each call returns the same text."""
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
    """The target of a relay. One thread at a time uses it."""

    #: The address for people, without passwords.
    label: str
    #: How many messages a batch has, and how many seconds to wait for a full batch.
    batch_size: int
    linger: float
    #: True: a batch that is sent twice is stored once, so after a failure the same batch is sent
    #: again. False: after a failure its messages are released, and sent in other batches.
    keeps_batches: ClassVar[bool]

    def send(self, batch: str, records: Sequence[Record]) -> Mapping[int, str]:
        """Send all records; return the ids of records with refused content, and the reasons.

        Raises `Busy` to be called again later, and any other exception if sending fails.

        :param batch: the name of the batch; a batch with the same name has the same records.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Busy(Exception):
    """The destination asks to be called again after `delay` seconds. This is not a failure."""

    def __init__(self, reason: str, *, delay: float = 1.0) -> None:
        super().__init__(reason)
        self.delay = delay


class NotNow(Exception):
    """The destination is unavailable."""
