-- The ready messages of a queue that match the filter and belong to a slice; takes nothing.
create or replace function pgq.peek_slice(
    queue text, filter jsonb default null, slice int default 0, "of" int default 1,
    caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', peek_slice.queue);
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), v_queue.lane_keys);
    v_now timestamptz := pgq.now();
begin
    if slice is null or "of" is null or "of" < 1 or slice not between 0 and "of" - 1 then
        raise exception 'there is no slice % of %', coalesce(slice::text, 'null'),
            coalesce("of"::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Slices are numbered from 0 to of - 1.';
    end if;
    return query
        select null::bigint, m.id, m.topic, m.priority, d.attempt, m.headers, m.payload, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at,
               m.expires_at, null::timestamptz
        from pgq.ready d
        cross join lateral pgq._slice_ranges(d.ids, slice, "of") r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        where d.queue_id = v_queue.queue_id
          and (d.expires_at is null or d.expires_at > v_now)
          and pgq._matches(v_filter.path, v_filter.scope, m, d.attempt + 1, v_now);
end
$$;
comment on function pgq.peek_slice(text, jsonb, int, int, pgq.caller) is
    'Returns the ready messages of a queue that match the filter, or one slice of them, in no '
    'particular order, for parallel readers. The slices 0 to of - 1 together are all of them. '
    'attempt is the number of deliveries so far. Claims nothing. Works on a standby.';
