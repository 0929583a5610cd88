"""Every statement that the client speaks."""

from __future__ import annotations

from typing import Final, LiteralString

# Queues and subscriptions

CREATE_QUEUE: Final = """
select pgq.create_queue(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
ALTER_QUEUE: Final = """
select pgq.alter_queue(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
DROP_QUEUE: Final = "select pgq.drop_queue(%s, %s)"
PAUSE: Final = "select pgq.pause(%s)"
RESUME: Final = "select pgq.resume(%s)"
SUBSCRIBE: Final = "select pgq.subscribe(%s, %s, %s, %s, %s)"
UNSUBSCRIBE: Final = "select pgq.unsubscribe(%s, %s)"
UNSUBSCRIBE_ALL: Final = "select pgq.unsubscribe_all(%s)"
ALTER_SUBSCRIPTION: Final = "select pgq.alter_subscription(%s, %s, %s)"

# Publishing

PUBLISH: Final = "select pgq.publish(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
PUBLISH_BATCH: Final = """
select * from pgq.publish_batch(
    %s, array(select jsonb_array_elements(%s::jsonb)),
    (select array_agg(header) from jsonb_array_elements(%s::jsonb) header),
    %s, %s, %s, %s, %s, %s, %s, %s, %s::text[])
"""
REPLY: Final = "select pgq.reply(%s, %s, %s, %s)"
COPY: Final = """
copy pgq.message (
    topic, payload, headers, priority, deliver_at, expires_at, sender, recipient, reply_to,
    correlation_id, group_key, dedup_key)
from stdin
"""

# Consuming: the columns are those of Message, in its order.

_CLAIMED: Final[LiteralString] = """
select lease_id, id, topic, priority, attempt, headers, payload, sender, recipient, reply_to,
       correlation_id, group_key, published_at, expires_at, lease_until
"""
CLAIM: Final[LiteralString] = _CLAIMED + "from pgq.claim(%s, %s, %s, %s, %s, %s)"
LEASED: Final[LiteralString] = _CLAIMED + "from pgq.leased(%s, %s, %s)"
ACK: Final = "select pgq.ack(%s, %s::bigint[])"
NACK: Final = "select pgq.nack(%s, %s::bigint[], %s, %s, %s)"
RELEASE: Final = "select pgq.release(%s, %s::bigint[], %s)"
BURY: Final = "select pgq.bury(%s, %s::bigint[], %s, %s)"
EXTEND: Final = "select pgq.extend(%s, %s)"
STREAM_BEGIN: Final = "select pgq.stream_begin(%s, %s, %s, %s)"
STREAM_FINISH: Final = "select pgq.stream_finish(%s, %s, %s, %s)"
STREAM_END: Final = "select pgq.stream_end(%s, %s, %s)"
SEEN: Final = "select pgq.seen(%s, %s, %s)"
PEEK: Final = "select * from pgq.peek(%s, %s, %s)"

LISTEN: Final = "listen pgq"
NOTIFY: Final = "select pg_notify('pgq', %s)"
WAIT_BEGIN: Final = "select pgq.wait_begin(%s, %s, %s)"
WAIT_BEGIN_SIGNAL: Final = "select pgq.wait_begin(%s, %s, %s), pgq.signal(%s)"
WAIT_END: Final = "select pgq.wait_end(%s, %s)"

# Relays: the columns are those of Copy, in its order.

RELAY_CLAIM: Final = """
select m.lease_id, m.id, m.topic, m.priority, m.headers::text, m.payload::text, m.published_at,
       m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key, m.expires_at,
       m.lease_until
  from pgq.stream_claim(%s, %s, %s, %s, null, %s) c
 cross join lateral pgq.leased(c.lease_id) m
"""
RELAY_REPORT: Final = "select pgq.relay_report(%s, %s, %s, %s, %s)"
BACKLOG: Final = """
select pgq.backlog(%s),
       exists (select from pgq.queue_stats s where s.queue = %s and s.waiting > 0)
"""

# Dead letters, upkeep, looking

REPLAY: Final = "select pgq.replay(%s, %s, %s, %s)"
DISCARD: Final = "select pgq.discard(%s, %s, %s, %s)"
MAINTAIN: Final = "call pgq.maintain()"
QUEUE_STATS: Final = "select * from pgq.queue_stats"
METRICS: Final = "select name, kind, labels, value, help from pgq.metrics()"
METRIC_NAMES: Final = "select name, kind, help from pgq._metric order by name"
STATEMENT_TIMEOUT: Final = "select set_config('statement_timeout', %s, true)"
RELAYS: Final = "select * from pgq.relays order by queue, relay"
HISTORY: Final = "select * from pgq.history(%s)"
REPLIES: Final = "select * from pgq.replies(%s)"
MATCHES: Final = "select pgq.matches(%s, %s, %s)"
EXPLAIN_FILTER: Final = "select item, value from pgq.explain_filter(%s, %s)"
VERSION: Final = "select pgq.version()"
NOW: Final = "select clock_timestamp()"
PING: Final = "select 1"
BACKEND_PID: Final = "select pg_backend_pid()"
