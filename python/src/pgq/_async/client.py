"""The functions of pgq as methods, on a connection of the caller."""

from __future__ import annotations

from pgq._async.client_claim import AsyncClaimMethods
from pgq._async.client_observe import AsyncObserveMethods
from pgq._async.client_operate import AsyncOperateMethods
from pgq._async.client_publish import AsyncPublishMethods
from pgq._async.client_queues import AsyncQueueMethods

__all__ = ["AsyncClient"]


class AsyncClient(
    AsyncQueueMethods,
    AsyncPublishMethods,
    AsyncClaimMethods,
    AsyncOperateMethods,
    AsyncObserveMethods,
):
    """The functions of pgq as methods, on a connection of the caller.

    The client never commits: publishing and acknowledging are part of the caller's transaction.

    :param conn: a connection of psycopg, a session or connection of SQLAlchemy, or a connection of
        asyncpg (only with asyncio). `publish_many` needs psycopg: no other driver can COPY.
    :param types: a type for each topic; payloads published to the topic must have this type.
    :param serializer: the name of the serializer of payloads; None for plain JSON.

    >>> async with await psycopg.AsyncConnection.connect() as conn:
    ...     await conn.execute("update stock set n = n - 1")
    ...     await AsyncClient(conn).publish("orders", {"amount": 12})
    """
