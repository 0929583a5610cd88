-- Takes selected messages, at most n, out of the backlogs of their ordering groups.
create or replace function pgq._withdraw_line(selection pgq._selection, n bigint)
returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_line record;
    v_key text := '';
    v_id bigint := 0::bigint;
    v_left bigint := n;
begin
    loop
        v_line := pgq._lock_line(
            selection, v_key, v_id, least(v_left, pgq._limit('operate_rows')));
        exit when v_line.ids is null;
        return query
            with gone as (
                delete from pgq.group_line g using unnest(v_line.keys, v_line.ids) x (key, id)
                where g.queue_id = selection.queue_id and g.group_key = x.key
                  and g.message_id = x.id
                returning g.message_id, g.failures, g.due_at
            )
            select g.due_at, 0, g.failures, true, count(*)::int,
                   range_agg(int8range(g.message_id, g.message_id + 1))
            from gone g group by g.failures, g.due_at;
        v_left := v_left - cardinality(v_line.ids);
        exit when v_left = 0;
        v_key := v_line.keys[cardinality(v_line.keys)];
        v_id := v_line.ids[cardinality(v_line.ids)];
    end loop;
end
$$;
comment on function pgq._withdraw_line(pgq._selection, bigint) is
    'Takes messages out of the backlogs of ordering groups.';
