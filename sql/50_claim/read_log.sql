-- The messages of the log with ids from low to before high, whoever has received them.
create or replace function pgq.read_log(
    low bigint, high bigint, topic text default null, filter jsonb default null,
    slot int default null
) returns setof pgq.claimed
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_now timestamptz := pgq.now();
begin
    return query
        select null::bigint, m.id, m.topic, m.priority, 0, m.headers, m.payload, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at,
               m.expires_at, null::timestamptz
        from pgq.message m
        where m.id >= low and m.id < high
          and (slot is null or m.era = slot)
          and (read_log.topic is null or m.topic = read_log.topic)
          and (filter is null or pgq._test_filter(
              v_filter.path, v_filter.scope, m.headers, m.payload, m.topic, m.priority, m.sender,
              m.recipient, m.reply_to, m.correlation_id, m.group_key, 1, m.published_at,
              m.expires_at, m.id, v_now));
end
$$;
comment on function pgq.read_log(bigint, bigint, text, jsonb, int) is
    'The messages of the log with ids from low to before high, delivered or not; of a topic, '
    'matching a filter, in a slot, if these are given. In no order. Works on a standby.';
revoke all on function pgq.read_log(bigint, bigint, text, jsonb, int) from public;
