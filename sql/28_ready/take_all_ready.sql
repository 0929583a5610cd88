-- Takes the next ready rows of a queue, from a rank on, except those that another transaction has
-- locked. last: the rank to continue after; null at the end. Takes whole rows, which is a third of
-- the work of finding rows first and then cutting sets out of them.
create or replace function pgq._take_all_ready(
    queue_id int, low bigint, "rows" int, out sets pgq._withdrawn[], out last bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- In the order of the index: a sort would read the whole backlog for each slice.
set enable_sort = off
set enable_bitmapscan = off
as $$
declare
    v_places tid[];
begin
    select array_agg(x.place), max(x.rank) into v_places, last
    from (
        select r.ctid as place, r.rank from pgq.ready r
        where r.queue_id = _take_all_ready.queue_id and r.rank >= low
        order by r.rank limit "rows" for update skip locked
    ) x;
    with gone as (
        delete from pgq.ready r where r.ctid = any (v_places)
        returning r.attempt, r.failures, r.grouped, r.size, r.ids
    )
    select array_agg(row(timestamptz '-infinity', s.*)::pgq._withdrawn) into sets
    from (
        select g.attempt, g.failures, g.grouped, sum(g.size)::int, range_agg(g.ids)
        from gone g group by 1, 2, 3
    ) s;
end
$$;
comment on function pgq._take_all_ready(int, bigint, int) is
    'Takes the next ready rows of a queue.';
