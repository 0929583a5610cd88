-- Takes selected messages, at most n, out of the scheduled rows of a queue, the next due first.
create or replace function pgq._withdraw_scheduled(selection pgq._selection, n bigint)
returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_after timestamptz := '-infinity';
    v_left bigint := n;
    v_found record;
    v_set pgq._withdrawn;
begin
    loop
        select array_agg(f.place) filter (where f.size > 0) as places,
               array_agg(f.ids) filter (where f.size > 0) as sets,
               max(f.due_at) as last, count(*) as count
        into v_found
        from pgq._find_scheduled(selection, v_after, pgq._limit('operate_rows')) f;
        for v_set in
            select * from pgq._take_scheduled(
                selection.queue_id, v_found.places, v_found.sets, v_left)
        loop
            v_left := v_left - v_set.size;
            return next v_set;
        end loop;
        exit when v_left = 0 or v_found.count < pgq._limit('operate_rows');
        v_after := v_found.last;
    end loop;
end
$$;
comment on function pgq._withdraw_scheduled(pgq._selection, bigint) is
    'Takes messages out of the scheduled rows of a queue.';
