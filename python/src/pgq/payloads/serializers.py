"""Payloads: how they are checked against a type, and encoded by a serializer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pgq.errors import PayloadError
from pgq.message import Draft, Message
from pgq.payloads.typed import check_type, is_typed, payload_as, plain_of

__all__ = [
    "HEADER",
    "Payloads",
    "Serializer",
    "read",
    "reads_anything",
    "register_serializer",
    "unregister_serializer",
]

#: The header that names the serializer of a payload.
HEADER = "serializer"

# Values of these types are stored as they are.
_PLAIN = frozenset([dict, list, tuple, str, int, float, bool, type(None)])

_lock = threading.Lock()
_serializers: dict[str, Serializer] = {}


class Serializer(Protocol):
    """Encodes payloads, for example to compress or encrypt them.

    >>> class Upper:
    ...     name = "upper"
    ...
    ...     def dumps(self, value):
    ...         return value.upper()
    ...
    ...     def loads(self, data):
    ...         return data.lower()
    """

    @property
    def name(self) -> str:
        """The value of the header ``serializer``."""
        ...

    def dumps(self, value: Any) -> Any:
        """Return the value to store. It must be JSON: encode bytes as text, for example base64."""
        ...

    def loads(self, data: Any) -> Any:
        """Return the decoded value."""
        ...


def register_serializer(serializer: Serializer) -> None:
    """Register a serializer: publishing selects it by its name, claiming by the header.

    :param serializer: the serializer; its name must be new.

    >>> register_serializer(Upper())
    >>> client.publish("notes", "hello", serializer="upper")
    """
    with _lock:
        if serializer.name == "json" or serializer.name in _serializers:
            raise ValueError(f"a serializer is called {serializer.name} already")
        _serializers[serializer.name] = serializer


def unregister_serializer(name: str) -> bool:
    """Remove a serializer; False if there was none of that name.

    :param name: the name of the serializer.

    >>> unregister_serializer("upper")
    True
    """
    with _lock:
        return _serializers.pop(name, None) is not None


@dataclass(frozen=True, slots=True)
class Payloads:
    """Checks and encodes the payloads that a client publishes.

    :param types: a type for each topic; payloads published to the topic must have this type.
    :param serializer: the name of the serializer of all messages; None for plain JSON.
    """

    types: Mapping[str, Any] = field(default_factory=dict)
    serializer: str | None = None

    def __post_init__(self) -> None:
        for topic, kind in self.types.items():
            check_type(kind, f"the type of {topic}")
        if self.serializer is not None:
            _find(self.serializer)

    def may_change(self, payloads: Iterable[Any], serializer: str | None) -> bool:
        """Whether `prepared` may change any of the payloads."""
        if self.types or self.serializer or serializer:
            return True
        return not all(type(payload) in _PLAIN for payload in payloads)

    def prepared(
        self,
        topic: str | None,
        payload: Any,
        headers: Mapping[str, Any] | None = None,
        serializer: str | None = None,
    ) -> tuple[Any, dict[str, Any] | None]:
        """Return payload and headers as they are stored.

        Raises `PayloadError` if the payload does not have the type of its topic. A payload whose
        headers name a serializer is already encoded, and is returned unchanged.
        """
        given = None if headers is None else dict(headers)
        if not self.may_change((payload,), serializer):
            return payload, given
        if headers is not None and HEADER in headers:
            return payload, given
        kind = None if topic is None else self.types.get(topic)
        if kind is not None or is_typed(payload):
            try:
                payload = plain_of(kind, payload)
            except PayloadError as error:
                where = "" if topic is None else f"{topic}: "
                raise PayloadError(f"{where}{error}") from None
        name = serializer or self.serializer
        if name is not None and name != "json":
            payload = _find(name).dumps(payload)
            given = {**(given or {}), HEADER: name}
        return payload, given

    def prepared_draft(self, draft: Draft) -> Draft:
        """Return a message as it is stored."""
        if not isinstance(draft, Draft):
            raise TypeError(f"a message to be published is a Draft, not {draft!r}")
        payload, headers = self.prepared(draft.topic, draft.payload, draft.headers)
        if payload is draft.payload:
            return draft
        return replace(draft, payload=payload, headers=headers)


def reads_anything(payload_type: Any) -> bool:
    """Whether `read` may change a message."""
    return payload_type is not None or bool(_serializers)


def read(message: Message, payload_type: Any) -> Message:
    """Return a message with its payload decoded by the serializer and converted to the type.

    A header ``serializer`` with a name that is not registered changes nothing. Raises
    `PayloadError`.
    """
    payload = message.payload
    serializer = _serializers.get(message.headers.get(HEADER, ""))
    if serializer is not None:
        try:
            payload = serializer.loads(payload)
        except Exception as error:
            text = f"the serializer {serializer.name} cannot read the payload"
            raise PayloadError(f"{text}: {type(error).__name__}: {error}") from error
    if payload_type is not None:
        payload = payload_as(payload_type, payload)
    return message if payload is message.payload else replace(message, payload=payload)


def _find(name: str) -> Serializer:
    if not isinstance(name, str):
        raise TypeError(f"a serializer is named by text, not {name!r}")
    found = _serializers.get(name)
    if found is None:
        names = ", ".join(sorted(_serializers)) or "none"
        raise ValueError(f"no serializer is called {name}; registered: {names}")
    return found
