# Written by unasync.py from _async/client.py: change that one.

"""The functions of pgq as methods, on a connection of the caller."""

from __future__ import annotations

from pgq._sync.client_claim import ClaimMethods
from pgq._sync.client_observe import ObserveMethods
from pgq._sync.client_operate import OperateMethods
from pgq._sync.client_publish import PublishMethods
from pgq._sync.client_queues import QueueMethods

__all__ = ["Client"]


class Client(
    QueueMethods,
    PublishMethods,
    ClaimMethods,
    OperateMethods,
    ObserveMethods,
):
    """The functions of pgq as methods, on a connection of the caller.

    The client never commits: publishing and acknowledging are part of the caller's transaction.

    :param conn: a connection of psycopg, a session or connection of SQLAlchemy, or a connection of
        asyncpg (only with asyncio). `publish_many` needs psycopg: no other driver can COPY.
    :param types: a type for each topic; payloads published to the topic must have this type.
    :param serializer: the name of the serializer of payloads; None for plain JSON.

    >>> with psycopg.Connection.connect() as conn:
    ...     conn.execute("update stock set n = n - 1")
    ...     Client(conn).publish("orders", {"amount": 12})
    """
