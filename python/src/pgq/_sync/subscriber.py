# Written by unasync.py from _async/subscriber.py: change that one.

"""Subscribers: objects whose method is called with the messages of topics."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from pgq._shared.arguments import check_client
from pgq._shared.log import log
from pgq._shared.threads import ASYNC, Lock, caller
from pgq._sync.consumer import Consumer
from pgq._sync.temporary_queues import TemporaryQueues
from pgq.consumers.config import ConsumerConfig
from pgq.errors import InvalidFilter
from pgq.filters import Filter, document
from pgq.filters.local import client_test, matches_pattern
from pgq.message import Message

if TYPE_CHECKING:
    from pgq._sync.client_pooled import PooledClient

__all__ = ["Subscriber", "SubscriptionManager"]


class Subscriber(Protocol):
    """An object that receives messages.

    >>> class Mailer:
    ...     subscriber_id = "mailer"
    ...
    ...     def on_message(self, message):
    ...         send(message.payload)
    """

    @property
    def subscriber_id(self) -> str:
        """The name of the subscriber, and of its queue."""
        ...

    def on_message(self, message: Message) -> Any:
        """Handle a message. If this raises, the message is retried."""
        ...


class _Route:
    """A subscriber, and the pattern and filter of its subscription."""

    def __init__(self, pattern: str, subscriber: Subscriber, filter: Filter) -> None:
        self.subscriber = subscriber
        self.call: Callable[..., Any] = caller(subscriber.on_message)
        self._pattern = pattern
        try:
            self._test = client_test(filter)
        except InvalidFilter:
            # Only the database can evaluate this filter: it has a regular expression that
            # Python does not have.
            self._test = client_test(None)

    def takes(self, message: Message) -> bool:
        """Whether the subscription covers the message."""
        return matches_pattern(self._pattern, message.topic) and self._test(message)


class _Member:
    """The subscribers of one id: their queue, its consumer, and their subscriptions."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.consumer: Consumer | None = None
        self.routes: dict[str, _Route] = {}

    def tell(self, message: Message) -> None:
        """Call the subscribers of the message, each once."""
        routes = list(self.routes.values())
        called = {id(route.subscriber): route for route in routes}
        if len(called) > 1:
            called = {id(route.subscriber): route for route in routes if route.takes(message)}
        # If no subscriber matches, a subscription of an earlier process received the message.
        for route in list(called.values()) or routes[:1]:
            route.call(message)


class SubscriptionManager:
    """Calls subscribers with messages; all share one listening connection.

    Each subscriber id has a queue, which receives messages also while no process consumes it.
    Callbacks run in their own threads or tasks. A message that matches several patterns of a
    subscriber is delivered once.

    - Several objects may have one id: each gets the messages of its own patterns. If one of them
      raises, the message is retried, and all of them are called again.
    - Managers (processes) with the same id share its queue: each message goes to one of them.
    - Subscribing again with another filter changes the filter.
    - With ``durable=False`` each manager has its own queues, and gets every message. A queue is
      dropped when its last subscription ends and on `close`. Maintenance drops the queue of a
      killed process after a minute.

    :param client: the result of `connect`.
    :param config: the options of the consumers.
    :param durable: False for queues that end with the manager.

    >>> with SubscriptionManager(client) as manager:
    ...     manager.subscribe("orders.*", Mailer())
    """

    def __init__(
        self,
        client: PooledClient,
        config: ConsumerConfig | None = None,
        *,
        durable: bool = True,
    ) -> None:
        check_client(client, asynchronous=ASYNC)
        self._client = client
        self._config = config or ConsumerConfig(batch_size=10)
        self._temporary = None if durable else TemporaryQueues(client)
        self._lock = Lock()
        self._members: dict[str, _Member] = {}

    def subscribe(self, pattern: str, subscriber: Subscriber, filter: Filter = None) -> bool:
        """Call the subscriber for the topics of a pattern; False if its id is subscribed already.

        Raises if the pattern or filter is wrong, the queue is an archive, or a right is missing.

        :param pattern: words separated by dots: ``*`` is one word, ``#`` any number of words.
        :param subscriber: an object with `subscriber_id` and `on_message`.
        :param filter: the messages to receive; None for all.
        """
        if not isinstance(pattern, str):
            raise TypeError("subscribe takes (pattern, subscriber): the pattern is a text")
        for name in ("subscriber_id", "on_message"):
            if not hasattr(subscriber, name):
                raise TypeError(
                    f"a subscriber has subscriber_id and on_message, this has no {name}"
                )
        route = _Route(pattern, subscriber, filter)
        name = subscriber.subscriber_id
        with self._lock:
            member = self._members.get(name)
            if member is not None and not _is_alive(member):
                self._end(name, quietly=True)
                member = None
            if member is None:
                member = _Member(name)
                added = self._open(member, pattern, route, filter)
                self._members[name] = member
            else:
                added = self._bind(member.queue, pattern, filter)
            member.routes[pattern] = route
            if added:
                self._log_added(name, pattern)
            return added

    def unsubscribe(self, pattern: str, subscriber_id: str) -> bool:
        """End the subscription to a pattern; False if there was none."""
        with self._lock:
            member = self._members.get(subscriber_id)
            queue = subscriber_id if member is None else member.queue
            if member is None and self._temporary is not None:
                return False
            removed = self._client.unsubscribe(queue, pattern)
            if member is not None:
                if len(member.routes) > 1 or self._temporary is not None:
                    member.routes.pop(pattern, None)
                if not member.routes:
                    self._end(subscriber_id)
            if removed:
                self._log_removed(subscriber_id, pattern)
            return removed

    def unsubscribe_all(self, subscriber_id: str) -> int:
        """End all subscriptions of a subscriber; return how many there were."""
        with self._lock:
            member = self._members.get(subscriber_id)
            if member is None and self._temporary is not None:
                return 0
            queue = subscriber_id if member is None else member.queue
            count = self._client.unsubscribe_all(queue)
            self._end(subscriber_id)
            if count:
                self._log_removed(subscriber_id, None)
            return count

    @property
    def subscribers(self) -> list[str]:
        """The ids of the subscribers."""
        return sorted(name for name, member in self._members.items() if _is_alive(member))

    @property
    def errors(self) -> dict[str, BaseException]:
        """The errors that ended the consumers of subscribers, by id."""
        return {
            name: member.consumer.error
            for name, member in self._members.items()
            if member.consumer is not None and member.consumer.error is not None
        }

    def close(self) -> None:
        """Wait for running callbacks, and end the consumers. Durable subscriptions stay."""
        with self._lock:
            for member in self._members.values():
                if member.consumer is not None:
                    member.consumer.stop()
            for name in list(self._members):
                self._end(name, quietly=True)
            if self._temporary is not None:
                self._temporary.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Implementation

    def _open(self, member: _Member, pattern: str, route: _Route, filter: Filter) -> bool:
        """Subscribe a queue and start its consumer; undo the subscription if that fails."""
        if self._temporary is not None:
            member.queue = self._temporary.create(member.queue, pattern, filter)
            added = True
        else:
            added = self._bind(member.queue, pattern, filter)
        member.routes[pattern] = route
        consumer = Consumer(self._client, member.queue, member.tell, self._config)
        try:
            member.consumer = consumer.start()
        except BaseException:
            if self._temporary is not None:
                self._temporary.drop(member.queue)
            elif added:
                self._client.unsubscribe(member.queue, pattern)
            raise
        return added

    def _bind(self, queue: str, pattern: str, filter: Filter) -> bool:
        """Subscribe a queue; if it is subscribed already, change its filter."""
        for row in self._client.subscriptions(queue):
            if row.pattern == pattern:
                if (row.filter or {}) != (document(filter) or {}):
                    self._client.alter_subscription(queue, pattern, filter)
                    log(
                        "INFO",
                        "subscription_changed",
                        "%s has another filter for %s",
                        queue,
                        pattern,
                        subscriber=queue,
                        pattern=pattern,
                    )
                return False
        return self._client.subscribe(queue, pattern, filter)

    def _end(self, name: str, *, quietly: bool = False) -> None:
        """End a consumer; raise the error that had ended it, unless `quietly`."""
        member = self._members.pop(name, None)
        if member is None:
            return
        try:
            if member.consumer is not None:
                member.consumer.close()
        except Exception:
            if not quietly:
                raise
        finally:
            if self._temporary is not None:
                self._temporary.drop(member.queue)

    def _log_added(self, name: str, pattern: str) -> None:
        log(
            "INFO",
            "subscription_added",
            "%s is subscribed to %s",
            name,
            pattern,
            subscriber=name,
            pattern=pattern,
        )

    def _log_removed(self, name: str, pattern: str | None) -> None:
        log(
            "INFO",
            "subscription_removed",
            "%s is no longer subscribed to %s",
            name,
            pattern or "anything",
            subscriber=name,
            pattern=pattern,
        )


def _is_alive(member: _Member) -> bool:
    return member.consumer is not None and member.consumer.error is None
