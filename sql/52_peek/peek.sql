-- The next n messages that a claim with this filter would get; takes nothing.
create or replace function pgq.peek(
    queue text, filter jsonb default null, n int default 10, caller pgq.caller default current_user
) returns setof pgq.message
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', peek.queue);
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), v_queue.lane_keys);
    v_lanes pgq._lanes := pgq._keep_lanes(v_queue, v_filter);
    v_now timestamptz := pgq.now();
    v_low bigint := pgq._rank_first();
    v_row record;
    v_rows int;
    v_left int := n;
    v_found int;
begin
    if n is null or n not between 1 and 1000000 then
        raise exception 'n must be between 1 and 1000000, not %', coalesce(n::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'n is the most messages to return.';
    end if;
    while v_left > 0 loop
        v_rows := 0;
        for v_row in
            select p.* from pgq._peek_rows(v_queue.queue_id, v_lanes, v_low,
                                           4 * v_left + 1000) p
        loop
            v_rows := v_rows + 1;
            v_low := v_row.rank + 1;
            continue when v_row.expires_at <= v_now;
            return query
                select m.* from unnest(v_row.ids) r
                cross join lateral (
                    -- OFFSET 0: else the planner may join by a scan of the whole log in id order.
                    select e.* from pgq.message e
                    where e.id >= lower(r) and e.id < upper(r) offset 0
                ) m
                where pgq._matches(v_filter.path, v_filter.scope, m::pgq.message,
                                   v_row.attempt + 1, v_now)
                order by m.id limit v_left;
            get diagnostics v_found = row_count;
            v_left := v_left - v_found;
            exit when v_left = 0;
        end loop;
        exit when v_rows = 0;
    end loop;
end
$$;
comment on function pgq.peek(text, jsonb, int, pgq.caller) is
    'Returns the next n ready messages of a queue that match the filter, in delivery order. '
    'Claims and locks nothing. Works on a standby.';
