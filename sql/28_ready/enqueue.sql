-- Makes messages of the log ready (again): retries, delayed ones, replays. revive: their expiry is
-- ignored. back: they rank with the redeliveries, before first deliveries.
create or replace function pgq._enqueue(
    queue pgq.queue, ids int8multirange, attempt int, failures jsonb, grouped boolean,
    revive boolean default false, back boolean default true, suspect boolean default false
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    -- A message that was replayed after its expiry does not expire again.
    v_replayed timestamptz := (jsonb_path_query_array(
        coalesce(failures, '[]'), '$[*] ? (@.outcome == "replay").at') ->> -1)::timestamptz;
    v_hashed text;
    v_group record;
    v_count int := 0;
begin
    if queue.dedup <> 'keep' and _enqueue.attempt = 0 then
        queue.set_size := 1;  -- a later message with the dedup key finds the row by its rank
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq._refuse_old_routing();
    end if;
    -- The caller may have read the queue before its transaction had an id, and before the queue got
    -- other lane keys: see pgq._mark_lanes.
    perform pg_current_xact_id();
    select q.lane_keys, q.lanes_full into queue.lane_keys, queue.lanes_full
    from pgq.queue q where q.queue_id = queue.queue_id;
    v_hashed := substr(queue.lane_keys[pgq._hashed_key(queue.lane_keys)], 2);
    for v_group in
        select m.priority,
               case when not revive and (v_replayed is null or m.expires_at > v_replayed) then
                   m.expires_at
               end as expires_at,
               case when queue.lane_keys is not null then
                   pgq._lane_label(m, queue.lane_keys)
               end as label,
               array_agg(m.id order by m.id) as ids,
               array_agg(case when v_hashed is not null then
                   pgq._lane_hash(pgq._lane_value(m, v_hashed)) end order by m.id) as hashes
        from unnest(_enqueue.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        group by 1, 2, 3
    loop
        perform pgq._add_laned(
            queue, v_group.label, v_group.priority, _enqueue.back, _enqueue.attempt,
            v_group.expires_at, _enqueue.failures, _enqueue.grouped, v_group.ids, v_group.hashes,
            _enqueue.suspect);
        v_count := v_count + cardinality(v_group.ids);
    end loop;
    if v_count < pgq._set_size(_enqueue.ids) then
        perform pgq._refuse_snapshot();
    end if;
    perform pgq._wake(queue.queue_id);
end
$$;
comment on function pgq._enqueue(
    pgq.queue, int8multirange, int, jsonb, boolean, boolean, boolean, boolean) is
    'Makes messages of the log ready (again).';
