# Written by unasync.py from _async/multi_publisher.py: change that one.

"""Publishing to several transports at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from pgq._shared.log import log, reason
from pgq._shared.threads import caller
from pgq._sync.transport import Publishes, Transport
from pgq.errors import PublishFailed
from pgq.message import Draft
from pgq.payloads.serializers import Payloads
from pgq.transports.counters import Counters
from pgq.transports.environment import configured_transports

__all__ = ["MultiPublisher"]


class MultiPublisher:
    """Publishes each message to all transports.

    A transport that fails is logged and counted, and does not stop the others. `PublishFailed` is
    raised if all transports fail, or a required one. Transports can be added and removed at any
    time.

    A transport that batches stores messages later. If it is required, or if no other transport has
    stored the message, it stores the message immediately. If a batch is refused later and no
    transport has stored it, `publish`, `flush` or `close` raises the error.

    All copies of a message have the same headers ``uuid`` and ``published_at``, unless the caller
    gives others. Transports that choose ids and times derive them from these headers.

    :param transports: one or several transports, each with a method `publish`.
    :param required: the transports that must store a message; if one fails, `publish` raises.

    >>> with MultiPublisher([database, redis], required=[database]) as publisher:
    ...     publisher.publish("orders", {"amount": 12})
    """

    def __init__(
        self,
        transports: Publishes | Sequence[Publishes],
        *,
        required: Sequence[Publishes] = (),
    ) -> None:
        if isinstance(transports, str):
            raise TypeError("an address is given where a transport is needed: create_transport")
        several = transports if isinstance(transports, Sequence) else [transports]
        self._lock = threading.Lock()
        self._opened: list[Any] = []
        #: For each transport, how many messages it has stored and how many it has refused.
        self.counters: list[Counters] = []
        for transport in several:
            self.add(transport, required=any(transport is other for other in required))
        if len(required) != sum(counter.required for counter in self.counters):
            raise ValueError("what is required has to be among the transports")

    @classmethod
    def configured(cls, environment: str | None = None, path: str | Path | None = None) -> Self:
        """Return a publisher to the transports of an environment.

        See `pgq.transports.environment.configured_transports`.
        """
        publisher = cls([])
        try:
            for configured in configured_transports(environment, path):
                transport: Any
                if configured.config is None:
                    transport = configured.open()
                    publisher._opened.append(transport)
                else:
                    transport = Transport(configured.config)
                    publisher._opened.append(transport)
                    # A transport that is not required may be unreachable now.
                    transport.connect(wait=configured.required)
                publisher.add(transport, required=configured.required)
        except BaseException:
            publisher.close()
            raise
        return publisher

    def add(self, transport: Publishes, *, required: bool = False) -> None:
        """Add a transport."""
        if not callable(getattr(transport, "publish", None)):
            raise TypeError(f"a transport has a method publish, {transport!r} has none")
        with self._lock:
            self.counters = [*self.counters, Counters(transport, required)]

    def remove(self, transport: Publishes) -> None:
        """Remove a transport."""
        with self._lock:
            self.counters = [
                counter for counter in self.counters if counter.transport is not transport
            ]

    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        headers: dict[str, Any] | None = None,
        serializer: str | None = None,
        **options: Any,
    ) -> list[Any]:
        """Publish a message; return the result or the exception of each transport, in order."""
        payload, headers = Payloads().prepared(topic, payload, headers, serializer)
        draft = Draft(topic=topic, payload=payload, headers=_stamped(headers), **options)
        given = {"headers": draft.headers, **options}
        counters = self.counters
        results: dict[int, Any] = {}
        # Batching transports come last: they store a message immediately if no other one has.
        for index, counter in enumerate(counters):
            if not counter.batches:
                results[index] = self._publish(counter, "publish_now", draft, given)
        alone = bool(results) and all(isinstance(one, Exception) for one in results.values())
        for index, counter in enumerate(counters):
            if counter.batches:
                how = "publish_now" if alone else "publish"
                results[index] = self._publish(counter, how, draft, given)
        missed = [
            results[index]
            for index, counter in enumerate(counters)
            if counter.required and isinstance(results[index], Exception)
        ]
        errors = [result for result in results.values() if isinstance(result, Exception)]
        if len(errors) == len(counters):
            missed = errors or [LookupError("no transport")]
        if missed:
            raise PublishFailed(missed[-1], [draft])
        return [results[index] for index in range(len(counters))]

    def _publish(self, counter: Counters, how: str, draft: Draft, given: dict[str, Any]) -> Any:
        """Publish to one transport; return its result, or the exception that it raised."""
        transport = counter.transport
        publish = caller(getattr(transport, how, None) or transport.publish)
        stored = how == "publish_now"
        try:
            try:
                result = publish(draft.topic, draft.payload, **given)
            except PublishFailed as error:
                if stored:
                    raise
                # The error belongs to an earlier batch, which the transport has counted.
                self._log_error(counter, error, draft.topic)
                result = publish(draft.topic, draft.payload, **given)
        except Exception as error:
            self._log_error(counter, error, draft.topic)
            counter.count(error)
            return error
        if stored:
            counter.count(None)
        return result

    def flush(self) -> None:
        """Let batching transports store waiting messages; raise if no transport has stored them."""
        batching = [counter for counter in self.counters if counter.batches]
        self._raise_lost(batching, self._flush(batching))

    def close(self) -> None:
        """Publish waiting messages, and close the transports that `configured` has opened.

        Raises if a required transport fails, or if no transport has stored the waiting messages.
        """
        opened, self._opened = self._opened, []
        batching = [counter for counter in self.counters if counter.batches]
        # Closing a transport also publishes its waiting messages.
        mine = [counter for counter in batching if not _among(counter.transport, opened)]
        errors = self._flush(mine)
        missed: Exception | None = None
        for transport in opened:
            try:
                if isinstance(transport, Transport):
                    transport.disconnect()
                elif hasattr(transport, "close"):
                    caller(transport.close)()
            except Exception as error:
                log(
                    "ERROR",
                    "transport_not_closed",
                    "closing %s failed: %s",
                    type(transport).__name__,
                    reason(error),
                    transport=type(transport).__name__,
                )
                for counter in self.counters:
                    if counter.transport is transport:
                        counter.error = error
                        errors[id(counter)] = error
                        missed = error if counter.required else missed
        if missed is not None:
            raise missed
        self._raise_lost(batching, errors)

    def _flush(self, counters: list[Counters]) -> dict[int, Exception]:
        errors: dict[int, Exception] = {}
        for counter in counters:
            try:
                caller(counter.transport.flush)()
            except Exception as error:
                self._log_error(counter, error)
                errors[id(counter)] = error
        return errors

    def _raise_lost(self, batching: list[Counters], errors: dict[int, Exception]) -> None:
        """Raise if there are only transports that batch, and all of them have failed."""
        found = [errors[id(counter)] for counter in batching if id(counter) in errors]
        if found and len(found) == len(self.counters):
            raise found[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _log_error(self, counter: Counters, error: Exception, topic: str | None = None) -> None:
        counter.error = error
        log(
            "ERROR",
            "transport_failed",
            "publishing to %s failed: %s",
            type(counter.transport).__name__,
            reason(error),
            topic=topic,
            transport=type(counter.transport).__name__,
        )


def _among(transport: Any, others: list[Any]) -> bool:
    return any(transport is other for other in others)


def _stamped(headers: dict[str, Any] | None) -> dict[str, Any]:
    """Return the headers with a uuid and a time, which all copies of the message share."""
    now = datetime.now(UTC).isoformat()
    return {"uuid": str(uuid4()), "published_at": now, **(headers or {})}
