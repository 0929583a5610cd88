-- Selected messages in the next ready rows of a queue, from a rank on. Rows without such messages
-- are returned too, with size 0, so that the caller continues after the last rank. Locks nothing.
create or replace function pgq._find_ready(selection pgq._selection, low bigint, "rows" int)
returns table (place tid, rank bigint, ids int8multirange, size bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
-- In the order of the index: a sort would read the whole backlog for each slice.
set enable_sort = off
set enable_bitmapscan = off
as $$
begin
    return query
        select x.place, x.rank, s.ids, coalesce(s.size, 0)
        from (
            select r.ctid as place, r.rank, r.attempt,
                   coalesce(r.ids * selection.ids, r.ids) - coalesce(selection.spared, '{}') as ids
            from pgq.ready r
            where r.queue_id = selection.queue_id and r.rank >= low
              and (selection.ids is null or r.ids && selection.ids)
            order by r.rank limit "rows"
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
comment on function pgq._find_ready(pgq._selection, bigint, int) is
    'Selected messages in the next ready rows of a queue.';
