-- Delivers messages of the log to a queue for the first time: into ready rows, or scheduled rows if
-- they are delayed. Returns the messages of ordering groups, for the caller to pass to _join_queue.
create or replace function pgq._deliver(queue pgq.queue, ids bigint[], now timestamptz)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hashed text := substr(queue.lane_keys[pgq._hashed_key(queue.lane_keys)], 2);
    -- A hashed key alone: all messages have the same label, and need not be grouped by it.
    v_label jsonb := case when v_hashed is not null and cardinality(queue.lane_keys) = 1 then
        '[[], [], [], []]'::jsonb end;
    v_set record;
    v_grouped bigint[] := '{}';
begin
    for v_set in
        select m.group_key is not null as grouped,
               case when m.group_key is null then m.priority end as priority,
               case when m.group_key is null then m.expires_at end as expires_at,
               case when m.group_key is null and m.deliver_at > now then m.deliver_at end as due_at,
               case when m.group_key is null and queue.lane_keys is not null
                    and v_label is null then
                   pgq._lane_label(m, queue.lane_keys)
               end as label,
               array_agg(m.id order by m.id) as ids,
               array_agg(case when v_hashed is not null then
                   pgq._lane_hash(pgq._lane_value(m, v_hashed)) end order by m.id) as hashes
        from unnest(_deliver.ids) i join pgq.message m on m.id = i
        group by 1, 2, 3, 4, 5
    loop
        if v_set.grouped then
            v_grouped := v_set.ids;
        elsif v_set.due_at is not null then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
            values (queue.queue_id, v_set.due_at, 0, cardinality(v_set.ids),
                    pgq._set_of(v_set.ids));
        else
            perform pgq._add_laned(
                queue, coalesce(v_set.label, v_label), v_set.priority, false, 0, v_set.expires_at,
                null, false, v_set.ids, v_set.hashes);
        end if;
    end loop;
    return v_grouped;
end
$$;
comment on function pgq._deliver(pgq.queue, bigint[], timestamptz) is
    'Delivers messages to a queue for the first time.';
