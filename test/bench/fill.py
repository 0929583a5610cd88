"""Fill queues quickly."""

from __future__ import annotations

from bench.cluster import Session
from bench.systems import PAYLOAD_BYTES

CHUNK = 50_000

# A payload of about 200 bytes whose field "type" is that of the headers: pgmq filters by payload.
_BODY = f"""jsonb_build_object(
    'type', coalesce(%(headers)s::jsonb ->> 'type', ''), 'number', i,
    'text', repeat('x', {PAYLOAD_BYTES - 50}))"""


def fill_pgq(
    session: Session, topic: str, count: int, headers: str = "{}", *, spread: bool = False
) -> None:
    """Publish `count` messages; with `spread`, delay each by one day and a different time."""
    later = "now() + interval '1 day' + i * interval '1 ms'" if spread else "null::timestamptz"
    _fill(
        session,
        f"""insert into pgq.message (topic, headers, payload, deliver_at)
            select %(queue)s, %(headers)s::jsonb, {_BODY}, {later}
            from generate_series(1, %(count)s) i""",
        topic,
        count,
        headers,
    )


def fill_pgmq(session: Session, queue: str, count: int, headers: str = "{}") -> None:
    """Send `count` messages to a queue of pgmq."""
    _fill(
        session,
        f"""select count(*) from pgmq.send_batch(
                %(queue)s, array(select {_BODY} from generate_series(1, %(count)s) i),
                array_fill(%(headers)s::jsonb, array[%(count)s]))""",
        queue,
        count,
        headers,
    )


def _fill(session: Session, query: str, queue: str, count: int, headers: str) -> None:
    # Filling is not measured, so it need not be durable.
    session.execute("set synchronous_commit = off")
    for done in range(0, count, CHUNK):
        session.conn.execute(
            query.encode(),
            {"queue": queue, "headers": headers, "count": min(CHUNK, count - done)},
        )
    session.execute("reset synchronous_commit")
