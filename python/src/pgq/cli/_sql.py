"""What commands ask the database besides the functions of the client."""

from __future__ import annotations

from typing import Final

QUEUES: Final = """
select q.name as queue, q.mode, q.paused, q.lane_keys, q.lease, q.max_attempts, q.backoff,
       q.max_backoff, q.retention, q.dedup_window, q.on_expiry, q.on_dead, q.journal,
       array(select s.pattern from pgq.subscription s
             where s.subscriber = q.name order by 1) as patterns,
       q.created_at
  from pgq.queue q
 order by 1
"""
DEAD_LETTERS: Final = """
select d.dead_letter_id, q.name as queue, d.message_id, d.reason, d.error, d.details, d.attempts,
       d.failures, d.holder, d.client, d.failed_at, d.replay_count, d.replayed_at, d.topic,
       d.priority, d.headers, d.payload, d.sender, d.recipient, d.reply_to, d.correlation_id,
       d.group_key, d.dedup_key, d.deliver_at, d.expires_at, d.published_at
  from pgq.dead_letter d
  join pgq.queue q on q.queue_id = d.queue_id
 where (%(queue)s::text is null or q.name = %(queue)s)
   and (%(id)s::bigint is null or d.message_id = %(id)s)
   and (%(filter)s::jsonb is null or pgq.matches(
           %(filter)s, d.headers, d.payload, d.topic, d.priority, d.sender, d.recipient,
           d.reply_to, d.correlation_id, d.group_key, d.attempts, d.published_at, d.expires_at,
           d.message_id))
 order by d.failed_at, d.dead_letter_id
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
