-- 32 bits that tell whether a copy of a message is faithful; a copy elsewhere computes the same.
-- What can be null is told from an empty text. A time that never comes has no microseconds.
create or replace function pgq._checksum(message pgq.message) returns bigint
language sql stable parallel safe
return ('x' || left(md5(concat_ws('|', message.id, message.topic, message.priority,
    message.headers, message.payload, pgq._micros(message.published_at),
    coalesce('=' || message.sender, '-'), coalesce('=' || message.recipient, '-'),
    coalesce('=' || message.reply_to, '-'), coalesce('=' || message.correlation_id, '-'),
    coalesce('=' || message.group_key, '-'), coalesce('=' || message.dedup_key, '-'),
    coalesce('=' || message.publisher, '-'), coalesce('=' || pgq._moment(message.deliver_at), '-'),
    case when isfinite(message.expires_at) then pgq._micros(message.expires_at)::text
         else '-' end)), 8))::bit(32)::bigint;
comment on function pgq._checksum(pgq.message) is
    'What tells whether a copy of a message is faithful.';
