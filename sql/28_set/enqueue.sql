-- Makes messages of the log ready (again): retries, delayed ones, replays. To revive them is to
-- forget that they expire. What comes back stands before what is fresh.
create or replace function pgq._enqueue(
    queue pgq.queue, ids int8multirange, attempt int, failures jsonb, grouped boolean,
    revive boolean default false, back boolean default true
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Once replayed after its time, a message does not expire any more.
    v_replayed timestamptz := (jsonb_path_query_array(
        coalesce(failures, '[]'), '$[*] ? (@.outcome == "replay").at') ->> -1)::timestamptz;
    v_group record;
    v_count int := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq._refuse_old_routing();
    end if;
    for v_group in
        select m.priority,
               case when not revive and (v_replayed is null or m.expires_at > v_replayed) then
                   m.expires_at
               end as expires_at,
               case when queue.lane_keys is not null then
                   pgq._lane_label(m.headers, queue.lane_keys)
               end as label,
               array_agg(m.id order by m.id) as ids
        from unnest(_enqueue.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        group by 1, 2, 3
    loop
        perform pgq._add_ready(
            queue.queue_id,
            case when v_group.label is not null then
                pgq._lane(queue.queue_id, queue.lane_keys, queue.lanes_full, v_group.label)
            end,
            v_group.priority, _enqueue.back, _enqueue.attempt, v_group.expires_at,
            _enqueue.failures, _enqueue.grouped, v_group.ids, queue.set_size);
        v_count := v_count + cardinality(v_group.ids);
    end loop;
    if v_count < pgq._set_size(_enqueue.ids) then
        perform pgq._refuse_snapshot();
    end if;
    perform pgq._wake(queue.queue_id);
end
$$;
comment on function pgq._enqueue(
    pgq.queue, int8multirange, int, jsonb, boolean, boolean, boolean) is
    'Makes messages of the log ready (again).';
revoke all on function pgq._enqueue(
    pgq.queue, int8multirange, int, jsonb, boolean, boolean, boolean) from public;
