"""Another database with pgq: each batch is published there in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import psycopg

from pgq._shared import sql
from pgq.relay.destination import Record

__all__ = ["Pgq"]

# SQLSTATEs, or their classes, that refuse a message: invalid data, a violated constraint, a topic
# that no queue receives.
_REFUSALS = ("22", "23", "QU005")


class Pgq:
    """Publishes each message to its own topic, or to a fixed topic, in another database.

    The header ``pgq_id`` is the message's id in the source database. The dedup key is derived from
    it: a message that is sent twice within the other queue's dedup window is stored once.

    :param topic: publish to this topic; None for the topic of each message.
    :param relay: the name of the relay, a part of the dedup key.
    """

    keeps_batches: ClassVar[bool] = False
    batch_size = 500
    linger = 0.0

    def __init__(
        self,
        conninfo: str,
        *,
        topic: str | None = None,
        relay: str = "relay",
        timeout: float = 30.0,
        label: str = "",
    ) -> None:
        self.label = label or "postgresql"
        self._conninfo = conninfo
        self._topic = topic
        self._relay = relay
        self._timeout = timeout
        self._conn: psycopg.Connection[Any] | None = None

    def send(self, batch: str, records: Sequence[Record]) -> Mapping[int, str]:
        """Publish all records, or one by one if some are refused."""
        try:
            try:
                self._publish(records)
            except psycopg.Error as error:
                if not _is_refusal(error):
                    raise
                return self._publish_apart(records)
        except BaseException:
            self.close()
            raise
        return {}

    def close(self) -> None:
        """Disconnect."""
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    def _publish_apart(self, records: Sequence[Record]) -> Mapping[int, str]:
        refused: dict[int, str] = {}
        for record in records:
            try:
                self._publish([record])
            except psycopg.Error as error:
                if not _is_refusal(error):
                    raise
                refused[record.id] = error.diag.message_primary or str(error)
        return refused

    def _publish(self, records: Sequence[Record]) -> None:
        """Publish in one transaction, with one statement per topic and set of options."""
        groups: dict[tuple[Any, ...], list[Record]] = {}
        for record in records:
            common = (
                record.topic,
                record.priority,
                record.expires_at,
                record.sender,
                record.recipient,
                record.reply_to,
                record.correlation_id,
                record.group_key,
            )
            groups.setdefault(common, []).append(record)
        conn = self._connection()
        with conn.transaction():
            for group in groups.values():
                first = group[0]
                left = None
                if first.expires_at is not None:
                    left = first.expires_at - datetime.now(UTC)
                    if left.total_seconds() <= 0:
                        continue
                conn.execute(
                    sql.PUBLISH_BATCH,
                    [
                        self._topic or first.topic,
                        f"[{','.join(record.payload_json for record in group)}]",
                        f"[{','.join(_headers(record) for record in group)}]",
                        first.priority,
                        None,
                        left,
                        first.sender,
                        first.recipient,
                        first.reply_to,
                        first.correlation_id,
                        first.group_key,
                        [f"{self._relay} {record.id}" for record in group],
                        None,
                    ],
                )

    def _connection(self) -> psycopg.Connection[Any]:
        if self._conn is None or self._conn.broken or self._conn.closed:
            self._conn = psycopg.connect(
                self._conninfo,
                autocommit=True,
                connect_timeout=max(2, int(min(self._timeout, 10))),
                fallback_application_name="pgq relay",
            )
            limit = f"{int(self._timeout * 1000)}ms"
            self._conn.execute("select set_config('statement_timeout', %s, false)", [limit])
        return self._conn


def _headers(record: Record) -> str:
    """Return the headers with the additional header ``pgq_id``."""
    rest = record.headers_json.strip()[1:-1].strip()
    return f'{{"pgq_id": {record.id}{", " if rest else ""}{rest}}}'


def _is_refusal(error: psycopg.Error) -> bool:
    return (error.sqlstate or "").startswith(_REFUSALS)
