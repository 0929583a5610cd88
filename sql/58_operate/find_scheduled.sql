-- Selected messages in the next scheduled rows of a queue that are due after a time: so many rows,
-- and ties of the last. Rows without such messages are returned with size 0. Locks nothing.
create or replace function pgq._find_scheduled(
    selection pgq._selection, after timestamptz, "rows" int
) returns table (place tid, due_at timestamptz, ids int8multirange, size bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
-- In the order of the index: a sort would read the whole backlog for each slice.
set enable_sort = off
set enable_bitmapscan = off
as $$
begin
    return query
        select x.place, x.due_at, s.ids, s.size
        from (
            select c.ctid as place, c.due_at, c.attempt,
                   coalesce(c.ids * selection.ids, c.ids) - coalesce(selection.spared, '{}') as ids
            from pgq.scheduled c
            where c.queue_id = selection.queue_id and c.due_at > after
              and (selection.ids is null or c.ids && selection.ids)
            order by c.due_at fetch first "rows" rows with ties
        ) x
        cross join lateral (
            select range_agg(int8range(m.id, m.id + 1)) as ids, count(*) as size
            from unnest(x.ids) u
            join pgq.message m on m.id >= lower(u) and m.id < upper(u)
            where selection.tested and pgq._is_selected(selection, m, x.attempt + 1)
            having selection.tested
            union all
            select x.ids, pgq._set_size(x.ids) where not selection.tested
        ) s;
end
$$;
comment on function pgq._find_scheduled(pgq._selection, timestamptz, int) is
    'Selected messages in the next scheduled rows of a queue.';
