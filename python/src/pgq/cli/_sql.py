"""SQL statements of commands that the client has no method for."""

from __future__ import annotations

from typing import Final, LiteralString, TypeAlias

from pgq._shared.sql import CAUSE

Statement: TypeAlias = LiteralString

QUEUES: Final = """
select q.name as queue, q.mode, q.paused, q.lane_keys, q.lease, q.max_attempts, q.backoff,
       q.max_backoff, q.retention, q.dedup_window, q.dedup, q.on_expiry, q.on_dead, q.journal,
       array(select s.pattern from pgq.subscription s
             where s.subscriber = q.name order by 1) as patterns,
       q.created_at
  from pgq.queue q
 order by 1
"""
_LETTERS: Final[LiteralString] = """
  from pgq.dead_letter d
  join pgq.queue q on q.queue_id = d.queue_id
"""
_WANTED: Final[LiteralString] = """
 where (%(queue)s::text is null or q.name = %(queue)s)
   and (%(filter)s::jsonb is null or pgq.matches(
           %(filter)s, d.headers, d.payload, d.topic, d.priority, d.sender, d.recipient,
           d.reply_to, d.correlation_id, d.group_key, d.attempts, d.published_at, d.expires_at,
           d.message_id))
"""
_SHOWN: Final[LiteralString] = """
select d.dead_letter_id, q.name as queue, d.message_id, d.reason, d.error, d.details, d.attempts,
       d.failures, d.holder, d.client, d.failed_at, d.replay_count, d.replayed_at, d.topic,
       d.priority, d.headers, d.payload, d.sender, d.recipient, d.reply_to, d.correlation_id,
       d.group_key, d.dedup_key, nullif(d.deliver_at, 'infinity') as deliver_at,
       d.expires_at, d.published_at
"""
DEAD_LETTER: Final[LiteralString] = (
    _SHOWN
    + _LETTERS
    + """
 where (%(queue)s::text is null or q.name = %(queue)s) and d.message_id = %(id)s
 order by d.failed_at, d.dead_letter_id
"""
)
# Ids come from pgq.dead_letter_ids, because the planner sorts all rows of the view.
DEAD_LETTERS: Final[LiteralString] = (
    _SHOWN
    + _LETTERS
    + """
 where d.dead_letter_id = any (array(
       select i.id
         from pgq._visible_queue v
        cross join lateral pgq.dead_letter_ids(v.name, %(filter)s::jsonb, n => %(n)s) i (id)
        where %(queue)s::text is null or v.name = %(queue)s))
 order by d.failed_at, d.dead_letter_id
 limit %(n)s
"""
)
CAUSES: Final[LiteralString] = (
    """
select q.name as queue, d.reason, c.cause, count(*) as count, min(d.failed_at) as first_at,
       max(d.failed_at) as last_at,
       (array_agg(d.message_id order by d.failed_at desc))[1] as example_id
"""
    + _LETTERS
    + CAUSE
    + _WANTED
    + """
 group by 1, 2, 3
 order by count(*) desc, max(d.failed_at) desc
 limit %(n)s
"""
)

# Rights, limits, leases

GRANT: Final = "select pgq.grant_queue(%s, %s, %s)"
REVOKE: Final = "select pgq.revoke_queue(%s, %s, %s)"
RIGHTS: Final = """
select queue, role, "right" from pgq.rights
 where %(queue)s::text is null or queue = %(queue)s
 order by 1, 2, 3
"""
LIMITS: Final = "select * from pgq.limits order by queue"
LEASES: Final = """
select lease_id, queue, key, size, attempt, claimed_at, age, until, holder, client
  from pgq.leases
 where %(queue)s::text is null or queue = %(queue)s
 order by claimed_at, lease_id
 limit %(n)s
"""

# Installing

EXTENSION: Final = "select extversion from pg_extension where extname = 'pgq'"
PLAIN: Final = "select to_regprocedure('pgq.version()') is not null"
AVAILABLE: Final = """
select exists (
    select from pg_available_extension_versions where name = 'pgq' and version = %s)
"""
CREATE_EXTENSION: Final = "create extension pgq version {}"
UPDATE_EXTENSION: Final = "alter extension pgq update to {}"
CREATE_DATABASE: Final = "create database {}"
DROP_DATABASE: Final = "drop database if exists {} with (force)"
