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
