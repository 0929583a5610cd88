-- Sets the earliest delivery time of selected messages that wait in ordering groups, for when their
-- turn comes. Returns how many.
create or replace function pgq._reschedule_line(selection pgq._selection, due timestamptz)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_line record;
    v_key text := '';
    v_id bigint := 0::bigint;
    v_ids int8multirange;
    v_count bigint := 0::bigint;
begin
    loop
        v_line := pgq._lock_line(selection, v_key, v_id, pgq._limit('operate_rows'));
        exit when v_line.ids is null;
        with changed as (
            update pgq.group_line g set due_at = due
            from unnest(v_line.keys, v_line.ids) x (key, id)
            where g.queue_id = selection.queue_id and g.group_key = x.key and g.message_id = x.id
            returning g.message_id
        )
        select range_agg(int8range(c.message_id, c.message_id + 1)) into v_ids from changed c;
        if v_ids is not null then
            perform pgq._record(selection.queue_id, 'reschedule', 0, v_ids, 'when it is its turn');
            v_count := v_count + pgq._set_size(v_ids);
        end if;
        v_key := v_line.keys[cardinality(v_line.keys)];
        v_id := v_line.ids[cardinality(v_line.ids)];
    end loop;
    return v_count;
end
$$;
comment on function pgq._reschedule_line(pgq._selection, timestamptz) is
    'Sets the earliest delivery time of messages that wait in ordering groups.';
