# Written by unasync.py from _async/group.py: change that one.

"""A consumer group: several handlers behind one consumer; each message goes to one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from pgq._shared.threads import caller
from pgq._sync.consumer import Consumer
from pgq.consumers.config import ConsumerConfig, Retry
from pgq.filters import Filter
from pgq.filters.local import client_test
from pgq.message import Message
from pgq.options import ConsumerOptions

if TYPE_CHECKING:
    from pgq._sync.client_pooled import PooledClient

__all__ = ["ConsumerGroup"]


class _Member:
    """A handler, and the filters for the messages that it accepts."""

    def __init__(
        self,
        handler: Callable[[Message], Any],
        filter: Filter,
        where: Callable[[Message], bool] | None,
    ) -> None:
        self.call: Callable[..., Any] = caller(handler)
        self.handled = 0
        self.turn = 0
        self._test = client_test(filter)
        self._where = where

    def accepts(self, message: Message) -> bool:
        """Whether the message passes the filters of the handler."""
        return self._test(message) and (self._where is None or self._where(message))


class ConsumerGroup:
    """Several handlers with filters of their own behind one consumer.

    Each message goes to one member that accepts it. If several members accept it, the one that was
    called least recently gets it. A message that no member accepts is released without counting
    the attempt, and delivered again after `refused_delay`. The database evaluates the option
    `filter`; the client evaluates the filters of members. Members can be added and removed at any
    time.

    :param client: the result of `connect`.
    :param queue: the name of the queue.
    :param config: the options of the consumer; `options` given by name override it.

    >>> group = ConsumerGroup(client, "orders")
    >>> group.add("refunds", handle_refund, F.type == "refund")
    >>> group.add("others", handle_order, F.type != "refund")
    >>> group.run()
    """

    def __init__(
        self,
        client: PooledClient,
        queue: str,
        config: ConsumerConfig | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._lock = threading.Lock()
        self._members: dict[str, _Member] = {}
        self._turn = 0
        given = ConsumerConfig.of(config, **options)
        self._where = given.where
        given = ConsumerConfig.of(given, where=self._is_accepted)
        #: The consumer that claims messages and calls the members.
        self.consumer = Consumer(client, queue, self._dispatch, given)

    def add(
        self,
        member_id: str,
        handler: Callable[[Message], Any],
        filter: Filter = None,
        *,
        where: Callable[[Message], bool] | None = None,
    ) -> None:
        """Add a member.

        :param member_id: the name of the member, unique in the group.
        :param handler: is called with the messages of the member.
        :param filter: the messages that the member accepts, tested in the client; None for all.
        :param where: a function that must return True as well.
        """
        member = _Member(handler, filter, where)
        with self._lock:
            if member_id in self._members:
                raise ValueError(f"the group has a member {member_id} already")
            self._members = {**self._members, member_id: member}

    def remove(self, member_id: str) -> bool:
        """Remove a member; False if there was none of that name."""
        with self._lock:
            rest = dict(self._members)
            found = rest.pop(member_id, None)
            self._members = rest
            return found is not None

    @property
    def members(self) -> dict[str, int]:
        """The names of the members, and how many messages each has handled."""
        return {name: member.handled for name, member in self._members.items()}

    @property
    def running(self) -> bool:
        """Whether the group consumes."""
        return self.consumer.running

    @property
    def error(self) -> BaseException | None:
        """The error that ended the group, if any."""
        return self.consumer.error

    def run(self, *, signals: bool = True) -> None:
        """Consume until `stop`, or until SIGTERM or SIGINT; raise the error that ended it."""
        self.consumer.run(signals=signals)

    def start(self) -> Self:
        """Begin to consume in the background; raise an error that makes that impossible."""
        self.consumer.start()
        return self

    def stop(self) -> None:
        """Claim nothing more; running handlers may finish."""
        self.consumer.stop()

    def close(self) -> None:
        """Stop, wait for running handlers, and release the other messages."""
        self.consumer.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _is_accepted(self, message: Message) -> bool:
        if self._where is not None and not self._where(message):
            return False
        return any(member.accepts(message) for member in self._members.values())

    def _dispatch(self, message: Message) -> None:
        name, member = self._choose(message)
        try:
            member.call(message)
        except Exception as error:
            error.add_note(f"member {name} of the group")
            raise
        with self._lock:
            member.handled += 1

    def _choose(self, message: Message) -> tuple[str, _Member]:
        accepting = [
            (name, member) for name, member in self._members.items() if member.accepts(message)
        ]
        if not accepting:
            # The member that accepted the message was removed meanwhile.
            raise Retry("no member accepts the message", delay=self.consumer.config.refused_delay)
        with self._lock:
            self._turn += 1
            name, member = min(accepting, key=lambda one: one[1].turn)
            member.turn = self._turn
            return name, member
