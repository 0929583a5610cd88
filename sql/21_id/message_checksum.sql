-- A checksum of 32 bits to verify a copy of a message; the reader of a copy computes the same one.
-- Null and an empty text give different checksums. An infinite time has no microseconds.
create or replace function pgq._checksum(message pgq.message) returns bigint
language sql stable parallel safe
return ('x' || left(md5(concat_ws('|', message.id, message.topic, message.priority,
    message.headers, message.payload, pgq._micros(message.published_at),
    -- Most messages have none of these: one test instead of six takes a fifth off the checksum.
    case when num_nonnulls(message.sender, message.recipient, message.reply_to,
                           message.correlation_id, message.group_key, message.dedup_key) = 0
        then '-|-|-|-|-|-'
        else concat_ws('|',
            coalesce('=' || message.sender, '-'), coalesce('=' || message.recipient, '-'),
            coalesce('=' || message.reply_to, '-'), coalesce('=' || message.correlation_id, '-'),
            coalesce('=' || message.group_key, '-'), coalesce('=' || message.dedup_key, '-')) end,
    coalesce('=' || message.publisher, '-'), coalesce('=' || pgq._moment(message.deliver_at), '-'),
    case when isfinite(message.expires_at) then pgq._micros(message.expires_at)::text
         else '-' end)), 8))::bit(32)::bigint;
comment on function pgq._checksum(pgq.message) is
    'A checksum to verify a copy of a message.';
