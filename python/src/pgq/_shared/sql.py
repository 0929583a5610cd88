"""Every SQL statement of the client."""

from __future__ import annotations

from typing import Final, LiteralString

# Queues and subscriptions

CREATE_QUEUE: Final = """
select pgq.create_queue(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
    %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
ALTER_QUEUE: Final = """
select pgq.alter_queue(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
    %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
DROP_QUEUE: Final = "select pgq.drop_queue(%s, %s)"
PAUSE: Final = "select pgq.pause(%s)"
RESUME: Final = "select pgq.resume(%s)"
SUBSCRIBE: Final = "select pgq.subscribe(%s, %s, %s, %s, %s)"
UNSUBSCRIBE: Final = "select pgq.unsubscribe(%s, %s)"
UNSUBSCRIBE_ALL: Final = "select pgq.unsubscribe_all(%s)"
SUBSCRIPTIONS: Final = """
select * from pgq.subscription
 where %s::text is null or subscriber = %s
 order by subscriber, pattern
"""
ALTER_SUBSCRIPTION: Final = "select pgq.alter_subscription(%s, %s, %s)"

# Publishing

PUBLISH: Final = "select pgq.publish(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
PUBLISH_BATCH: Final = """
select * from pgq.publish_batch(
    %s, array(select jsonb_array_elements(%s::text::jsonb)),
    (select array_agg(header) from jsonb_array_elements(%s::text::jsonb) header),
    %s, %s, %s, %s, %s, %s, %s, %s, %s::text[], %s)
"""
REPLY: Final = "select pgq.reply(%s, %s, %s, %s)"
COPY: Final = """
copy pgq.message (
    topic, payload, headers, priority, deliver_at, expires_at, sender, recipient, reply_to,
    correlation_id, group_key, dedup_key)
from stdin
"""

# Schedules

SCHEDULE: Final = "select pgq.schedule(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
UNSCHEDULE: Final = "select pgq.unschedule(%s)"
PAUSE_SCHEDULE: Final = "select pgq.pause_schedule(%s)"
RESUME_SCHEDULE: Final = "select pgq.resume_schedule(%s)"
SCHEDULES: Final = "select * from pgq.schedules order by name"

# Consuming: the columns are those of Message, in its order.

_CLAIMED: Final[LiteralString] = """
select lease_id, id, topic, priority, attempt, headers, payload, sender, recipient, reply_to,
       correlation_id, group_key, published_at, expires_at, lease_until
"""
CLAIM: Final[LiteralString] = _CLAIMED + "from pgq.claim(%s, %s, %s, %s, %s, %s)"
LEASED: Final[LiteralString] = _CLAIMED + "from pgq.leased(%s)"
ACK: Final = "select pgq.ack(%s, %s::bigint[])"
NACK: Final = "select pgq.nack(%s, %s::bigint[], %s, %s, %s)"
RELEASE: Final = "select pgq.release(%s, %s::bigint[], %s)"
BURY: Final = "select pgq.bury(%s, %s::bigint[], %s, %s)"
EXTEND: Final = "select pgq.extend(%s, %s)"
STREAM_BEGIN: Final = "select pgq.stream_begin(%s, %s, %s, %s, %s)"
STREAM_FINISH: Final = "select pgq.stream_finish(%s, %s, %s, %s)"
STREAM_END: Final = "select pgq.stream_end(%s, %s, %s)"
SEEN: Final = "select pgq.seen(%s, %s, %s)"
# A message replayed with a patch has deliver_at infinity, which Python's datetime cannot hold.
_MESSAGE: Final[LiteralString] = """
select id, era, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
       group_key, dedup_key, nullif(deliver_at, 'infinity') as deliver_at, expires_at,
       published_at, publisher
"""
PEEK: Final[LiteralString] = _MESSAGE + "from pgq.peek(%s, %s, %s)"
MESSAGES: Final = "select * from pgq.messages(%s, %s, %s, %s)"

LISTEN: Final = "listen {}"
UNLISTEN: Final = "unlisten {}"
NOTIFY: Final = "select pg_notify(%s, '')"
CHANNEL: Final = "select pgq.channel(%s)"
WAIT_BEGIN: Final = "select pgq.wait_begin(%s, %s, %s)"
WAIT_BEGIN_CHANNEL: Final = "select pgq.wait_begin(%s, %s, %s), pgq.channel(%s)"
WAIT_END: Final = "select pgq.wait_end(%s, %s)"

# Relays: the columns are those of Record, in its order.

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

# Dead letters, maintenance, observing

REPLAY: Final = "select pgq.replay(%s, %s, %s, %s, %s, %s, %s, %s)"
DISCARD: Final = "select pgq.discard(%s, %s, %s, %s, %s)"
FINISH: Final = "select pgq.finish(%s, %s, %s)"
RESULT: Final = "select * from pgq.result(%s)"
WAIT_RESULT: Final = "select pgq.wait_result(%s, %s, %s)"
PURGE: Final = "select pgq.purge(%s, %s, %s)"
CANCEL: Final = "select pgq.cancel(%s, %s, %s, %s, %s)"
MOVE: Final = "select pgq.move(%s, %s, %s, %s, %s)"
RESCHEDULE: Final = "select pgq.reschedule(%s, %s, %s, %s, %s, %s)"
MAINTAIN: Final = "call pgq.maintain(%s)"
QUEUE_STATS: Final = "select * from pgq.queue_stats"
FINDINGS: Final = "select * from pgq.findings(%s, %s)"
METRICS: Final = "select name, kind, labels, value, help from pgq.metrics()"
METRIC_NAMES: Final = "select name, kind, help from pgq._metric order by name"
STATEMENT_TIMEOUT: Final = "select set_config('statement_timeout', %s, true)"
RELAYS: Final = "select * from pgq.relays order by queue, relay"
QUEUE_NAMES: Final = "select name from pgq._visible_queue order by name"
QUEUE_POLICY: Final = "select * from pgq.queue where name = %s"
DEAD_LETTER: Final = """
select d.queue, d.dead_letter_id, d.queue_id, d.message_id, d.reason, d.error, d.details,
       d.attempts, d.failures, d.holder, d.client, d.failed_at, d.replay_count, d.replayed_at,
       d.topic, d.priority, d.headers, d.payload, d.sender, d.recipient, d.reply_to,
       d.correlation_id, d.group_key, d.dedup_key,
       nullif(d.deliver_at, 'infinity') as deliver_at, d.expires_at, d.published_at
  from pgq.dead_letter d join pgq._visible_queue q using (queue_id)
 where q.name = %s and d.message_id = %s
"""
HISTORY: Final = "select * from pgq.history(%s)"
REPLIES: Final[LiteralString] = _MESSAGE + "from pgq.replies(%s)"
MATCHES: Final = "select pgq.matches(%s, %s, %s)"
EXPLAIN_FILTER: Final = "select item, value from pgq.explain_filter(%s, %s)"
VERSION: Final = "select pgq.version()"
NOW: Final = "select clock_timestamp()"
PING: Final = "select 1"
BACKEND_PID: Final = "select pg_backend_pid()"

# The cause of a dead letter d: its error, with ids and numbers replaced by placeholders.
CAUSE: Final = r"""
 cross join lateral (select regexp_replace(regexp_replace(regexp_replace(left(d.error, 1000),
     '[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}', '<id>', 'gi'),
     '\m(0x[0-9a-f]+|(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,})\M', '<id>', 'gi'),
     '[0-9]+([.,][0-9]+)*', '<n>', 'g')) c (cause)
"""
