"""Every SQL statement of the page; each reads no more than the page shows."""

from __future__ import annotations

from typing import Final, LiteralString

from pgq._shared.sql import CAUSE

BEGIN: Final = """
select set_config('statement_timeout', %s, true), set_config('transaction_read_only', %s, true)
"""

# Polled for all browsers

NOW: Final = "select extract(epoch from pgq.now())::float8"
SERVER: Final = """
select current_database() as database, current_user as role, pgq.version() as version,
       current_setting('server_version') as server, pg_is_in_recovery() as standby
"""
QUEUES: Final = """
select s.queue, s.mode, s.paused, s.ready, s.scheduled, s.leased, s.waiting, s.dead, s.exact,
       extract(epoch from s.oldest_age)::float8 as oldest,
       extract(epoch from s.next_due_at)::float8 as next_due,
       s.published_per_second as published, s.acked_per_second as acked,
       s.failed_per_second as failed
  from pgq.queue_stats s
 order by s.queue
 limit %s
"""
HOLDERS: Final = """
select l.holder, host(l.client) as client, l.queue, count(*) as leases, sum(l.size)::bigint as size,
       max(l.attempt) as attempt, extract(epoch from min(l.claimed_at))::float8 as claimed,
       extract(epoch from min(l.until))::float8 as until,
       count(*) filter (where l.until is null) as endless,
       count(*) filter (where l.until <= pgq.now()) as expired
  from pgq.leases l
 group by l.holder, l.client, l.queue
 order by min(l.until) nulls last, sum(l.size) desc
 limit %s
"""

# The last hour, as maintain() has counted it; the rates are those of whole minutes.
TRAFFIC: Final = """
select t.queue, extract(epoch from t.minute)::float8 + 60 as at, t.ready,
       (t.received / 60.0)::float8 as published, (t.acked / 60.0)::float8 as acked,
       (t.failed / 60.0)::float8 as failed, t.dead
  from pgq.queue_traffic t
 where t.minute >= pgq.now() - interval '1 h' and t.minute < pgq.now() - interval '1 min'
 order by t.minute
"""
FINDINGS: Final = """
select case f.severity when 'critical' then 'bad' else 'warn' end as level, f.finding as kind,
       f.queue, f.detail as text, f.cure, extract(epoch from f.since)::float8 as since
  from pgq.findings() f
"""

# Queried on demand

# Only the first characters of a text, and null for values that are expensive to decompress.
_HEADERS: Final[LiteralString] = """
       case when pg_column_size(m.headers) <= 200000 then left(m.headers::text, %(chars)s)
            end as headers, length(m.headers::text) as headers_length,
"""
_PAYLOAD: Final[LiteralString] = """
       case when pg_column_size(m.payload) <= 200000 then left(m.payload::text, %(chars)s)
            end as payload,
       case when pg_column_size(m.payload) <= 200000 then length(m.payload::text)
            end as payload_length, pg_column_size(m.payload) as payload_bytes,
"""
_MATCHES: Final[LiteralString] = """pgq.matches(
           %(filter)s::jsonb, m.headers, m.payload, m.topic, m.priority, m.sender, m.recipient,
           m.reply_to, m.correlation_id, m.group_key, 1, m.published_at, m.expires_at, m.id)
"""

LEASES: Final = """
select l.lease_id::text, l.queue, l.key, l.size, l.attempt,
       extract(epoch from l.claimed_at)::float8 as claimed,
       extract(epoch from l.until)::float8 as until, l.holder, host(l.client) as client
  from pgq.leases l
 where l.queue = %(queue)s and l.holder is not distinct from %(holder)s
   and host(l.client) is not distinct from %(client)s
 order by l.until nulls last, l.lease_id
 limit %(n)s
"""
POLICY: Final = """
select q.mode, q.paused, q.lane_keys, extract(epoch from q.lease)::float8 as lease, q.max_attempts,
       extract(epoch from q.backoff)::float8 as backoff,
       extract(epoch from q.max_backoff)::float8 as max_backoff,
       extract(epoch from q.retention)::float8 as retention, q.on_expiry, q.on_dead, q.journal,
       extract(epoch from q.created_at)::float8 as created
  from pgq.queue q
 where q.name = %s
"""
SUBSCRIPTIONS: Final = """
select s.pattern, s.filter::text as filter, s.match_count as matches,
       extract(epoch from s.last_matched_at)::float8 as last_match
  from pgq.subscription s
 where s.subscriber = %s
 order by s.pattern
 limit 50
"""
NEXT: Final[LiteralString] = (
    "select m.id::text, m.topic, m.priority,"
    + _HEADERS
    + _PAYLOAD
    + """extract(epoch from m.published_at)::float8 as published
  from pgq.peek(%(queue)s, null, %(n)s) m
"""
)

# The next page begins after the time and the number of the last dead letter of this page. Ids come
# from pgq.dead_letter_ids, because the planner sorts all rows of the view.
LETTERS: Final[LiteralString] = (
    """
select m.failed_at::text as before, m.dead_letter_id::text as number, m.queue,
       m.message_id::text as id, m.topic, m.reason, left(m.error, %(chars)s) as error,
       m.attempts, m.replay_count, m.holder,"""
    + _HEADERS
    + _PAYLOAD
    + """extract(epoch from m.failed_at)::float8 as failed,
       extract(epoch from m.published_at)::float8 as published
  from pgq.dead_letter m
 where m.dead_letter_id = any (array(
       select i.id
         from pgq._visible_queue q
        cross join lateral pgq.dead_letter_ids(
              q.name, %(filter)s::jsonb, %(cause)s::jsonb, %(n)s, true, %(text)s::text,
              %(before)s::timestamptz, %(number)s::bigint) i (id)
        where %(queue)s::text is null or q.name = %(queue)s))
 order by m.failed_at desc, m.dead_letter_id desc
 limit %(n)s
"""
)
# The causes of the newest dead letters of each queue.
CAUSES: Final[LiteralString] = (
    """
select d.queue, d.reason, c.cause as error, count(*) as size,
       extract(epoch from max(d.failed_at))::float8 as last
  from pgq.dead_letter d
"""
    + CAUSE
    + """
 where d.dead_letter_id = any (array(
       select i.id
         from pgq._visible_queue q
        cross join lateral pgq.dead_letter_ids(q.name, n => %(n)s, newest => true) i (id)
        where %(queue)s::text is null or q.name = %(queue)s))
 group by 1, 2, 3
 order by count(*) desc, max(d.failed_at) desc
 limit 12
"""
)
LETTER: Final[LiteralString] = (
    """
select q.name as queue, m.message_id::text as id, m.topic, m.reason,
       left(m.error, %(chars)s) as error, left(jsonb_pretty(m.details), %(chars)s) as details,
       m.attempts, m.replay_count, m.holder, host(m.client) as client, m.priority, m.sender,
       m.recipient, m.reply_to, m.correlation_id, m.group_key, m.dedup_key,
       jsonb_path_query_array(m.failures, '$[last - 49 to last]') as failures,
       extract(epoch from m.failed_at)::float8 as failed,
       extract(epoch from m.replayed_at)::float8 as replayed,
       extract(epoch from m.expires_at)::float8 as expires,"""
    + _HEADERS
    + _PAYLOAD
    + """extract(epoch from m.published_at)::float8 as published
  from pgq.dead_letter m
  join pgq._visible_queue q on q.queue_id = m.queue_id
 where q.name = %(queue)s and m.message_id = %(id)s
"""
)

HISTORY: Final = """
select extract(epoch from h.at)::float8 as at, h.queue, h.event, h.attempt, h.holder,
       host(h.client) as client, h.lease_id::text, left(h.note, 2000) as note
  from pgq.history(%s) h
 limit 500
"""
MESSAGE: Final[LiteralString] = (
    """
select m.id::text, m.topic, m.priority, m.sender, m.recipient, m.reply_to, m.correlation_id,
       m.group_key,"""
    + _HEADERS
    + _PAYLOAD
    + """extract(epoch from m.expires_at)::float8 as expires,
       extract(epoch from m.published_at)::float8 as published
  from pgq.read_log(%(id)s, %(id)s + 1) m
"""
)

EXPLAIN: Final = "select e.item, e.value from pgq.explain_filter(%(queue)s, %(filter)s::jsonb) e"
_TRIED: Final[LiteralString] = (
    "select m.id::text, m.topic,"
    + _HEADERS
    + _PAYLOAD
    + "extract(epoch from m.published_at)::float8 as published,"
    + _MATCHES
    + " as matches"
)
# The newest messages for a queue, delivered or not; needs EXECUTE on read_log. Patterns are tested
# first, because filters cost more.
NEWEST: Final[LiteralString] = (
    "with s as materialized ("
    "select s.pattern, s.filter from pgq.subscription s where s.subscriber = %(queue)s)"
    + _TRIED
    + """
  from (select l.*
          from (select l.*
                  from (select max(x.id) as id from pgq.message x) newest
                 cross join lateral pgq.read_log(newest.id - %(log)s + 1, newest.id + 1) l
                 where l.topic = %(queue)s
                    or exists (select from s where pgq.matches_topic(s.pattern, l.topic))
                 order by l.id desc
                 limit 5 * %(n)s) l
         where l.topic = %(queue)s
            or exists (select from s
                        where pgq.matches_topic(s.pattern, l.topic)
                          and (s.filter is null or pgq.matches(
                               s.filter, l.headers, l.payload, l.topic, l.priority, l.sender,
                               l.recipient, l.reply_to, l.correlation_id, l.group_key, 1,
                               l.published_at, l.expires_at, l.id)))
         order by l.id desc
         limit %(n)s) m
 order by m.id desc
"""
)
# The next messages of a queue, for roles that may not read the log.
COMING: Final[LiteralString] = _TRIED + " from pgq.peek(%(queue)s, null, %(n)s) m"

# Lists

MESSAGES: Final[LiteralString] = (
    """
select m.id::text, m.topic, m.priority, m.attempt, m.lease_id::text, m.correlation_id,
       m.group_key,"""
    + _HEADERS
    + _PAYLOAD
    + """extract(epoch from m.lease_until)::float8 as until,
       extract(epoch from m.published_at)::float8 as published
  from pgq.messages(%(queue)s, %(state)s, %(filter)s::jsonb, %(scan)s) m
 where %(text)s::text is null
    or position(lower(%(text)s) in lower(concat_ws(' ', m.headers::text, m.payload::text))) > 0
 limit %(n)s
"""
)
MINUTES: Final = """
select extract(epoch from t.minute)::float8 as at, t.received, t.acked, t.failed, t.ready, t.dead
  from pgq.queue_traffic t
 where t.queue = %(queue)s and t.minute > pgq.now() - %(hours)s * interval '1 h'
   and t.minute <= pgq.now() - interval '1 min'
 order by t.minute
"""
SCHEDULES: Final = """
select s.name, s.topic, s.cron, s.every::text, s.time_zone, s.missed, s.role, s.paused, s.error,
       left(s.payload::text, 400) as payload, s.last_id::text,
       extract(epoch from s.last_at)::float8 as last, extract(epoch from s.next_at)::float8 as next
  from pgq.schedules s
 order by s.next_at nulls last, s.name
 limit 500
"""
LISTENERS: Final = """
select q.name as queue, count(*) as size
  from pgq.waiter w
  join pgq.queue q on q.queue_id = w.queue_id
 where w.until > pgq.now()
 group by q.name
 order by q.name
 limit 500
"""
SUBSCRIBERS: Final = """
select s.subscriber as queue, s.pattern, left(s.filter::text, 400) as filter,
       s.match_count as matches, extract(epoch from s.last_matched_at)::float8 as last
  from pgq.subscription s
 order by s.subscriber, s.pattern
 limit 200
"""
RELAYS: Final = """
select r.queue, r.relay, r.destination, r.alive, r.circuit, left(r.error, 400) as error
  from pgq.relays r
 order by r.queue, r.relay
 limit 200
"""
_LIMITS: Final[LiteralString] = """
select l.queue, l.max_leased, l.leased, l.rate, l.burst, l.tokens, l.lane_max_leased, l.lane_rate,
       l.lane_burst, l.fair
  from pgq.limits l
"""
LIMITS: Final[LiteralString] = _LIMITS + " order by l.queue limit 500"
LIMITS_OF: Final[LiteralString] = _LIMITS + " where l.queue = %s"
