-- The policy of a queue: the options of create_queue that are not null.
create or replace function pgq._policy(queue pgq.queue, limits pgq.queue_limit) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return jsonb_strip_nulls(
        to_jsonb(queue) || '{"fair": false}'
        || coalesce(jsonb_strip_nulls(to_jsonb(limits)), '{}')
        || jsonb_build_object(
            'lane_keys', case when queue.auto_lanes then '{auto}' else queue.lane_keys end))
        - '{queue_id,name,lanes_full,unlaned_rows,unlaned_xid,unlaned_rank,auto_lanes,paused,'
          'limited,channel,secret,created_at,step,lane_step}'::text[];
end
$$;
comment on function pgq._policy(pgq.queue, pgq.queue_limit) is
    'The options of a queue that are not null.';

-- The options in which two policies of a queue differ, with their values; null: in none.
create or replace function pgq._policy_change(
    present pgq.queue, wanted pgq.queue, present_limits pgq.queue_limit,
    wanted_limits pgq.queue_limit
) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select string_agg(format('%s is %s, not %s', o.key, coalesce(o.present, 'null'),
                                 coalesce(o.wanted, 'null')), '; ' order by o.key)
        from (
            select key, p.value as present, w.value as wanted
            from jsonb_each_text(pgq._policy(present, present_limits)) p
            full join jsonb_each_text(pgq._policy(wanted, wanted_limits)) w using (key)
        ) o
        -- Intervals that are equal may differ as text.
        where case when o.key in ('lease', 'max_lease', 'backoff', 'max_backoff', 'retention',
                                  'dedup_window')
              then o.present::interval is distinct from o.wanted::interval
              else o.present is distinct from o.wanted end);
end
$$;
comment on function pgq._policy_change(
    pgq.queue, pgq.queue, pgq.queue_limit, pgq.queue_limit) is
    'The options in which two policies of a queue differ.';
