-- The messages of the log with ids from low (inclusive) to high (exclusive), delivered or not.
create or replace function pgq.read_log(
    low bigint, high bigint, topic text default null, filter jsonb default null,
    slot int default null, skip int[] default null, caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_now timestamptz := pgq.now();
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', read_log.topic);
        -- The queue must receive its whole topic: its consumers may not read messages that a filter
        -- excludes.
        if not exists (select from pgq.binding b join pgq.queue q on q.queue_id = b.queue_id
                       where q.name = read_log.topic and b.pattern = q.name and b.path is null)
        then
            raise exception 'permission denied for the log of topic "%"', read_log.topic
                using errcode = 'insufficient_privilege',
                      hint = 'The queue of that name does not receive all messages of the topic.';
        end if;
    end if;
    return query
        select null::bigint, m.id, m.topic, m.priority, 0, m.headers, m.payload, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at,
               m.expires_at, null::timestamptz
        from pgq.message m
        where m.id >= low and m.id < high
          and (slot is null or m.era = slot) and (skip is null or m.era <> all (skip))
          and (read_log.topic is null or m.topic = read_log.topic)
          and (filter is null or pgq._matches(v_filter.path, v_filter.scope, m, 1, v_now));
end
$$;
comment on function pgq.read_log(bigint, bigint, text, jsonb, int, int[], pgq.caller) is
    'The messages of the log with ids from low (inclusive) to high (exclusive), delivered or not, '
    'in no particular order. Optional conditions: topic, filter, one slot, slots to skip. Works '
    'on a standby. Roles other than the owner may read the topic of a queue that they may consume, '
    'if the queue receives all of that topic.';
