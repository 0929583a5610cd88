-- 32 bits that tell whether a copy of a message is faithful; a copy elsewhere computes the same.
create or replace function pgq._checksum(message pgq.message) returns bigint
language sql stable parallel safe
return ('x' || left(md5(concat_ws('|', message.id, message.topic, message.priority,
    message.headers, message.payload,
    round(date_part('epoch', message.published_at) * 1000000)::bigint)), 8))::bit(32)::bigint;
comment on function pgq._checksum(pgq.message) is
    'What tells whether a copy of a message is faithful.';
revoke all on function pgq._checksum(pgq.message) from public;
