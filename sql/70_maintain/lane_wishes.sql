-- How many messages filters have tested in a queue under its current lane keys, by the fields that
-- could prune these tests. A field prunes best if the filter names its values (named).
create or replace function pgq._lane_wishes(queue pgq.queue, now timestamptz)
returns table (key text, tested bigint, matched bigint, named bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select k.key, sum(f.tested)::bigint, sum(f.matched)::bigint,
               count(*) filter (where pgq._filter_values(f.tree, k.key) is not null)
        from (
            select sum(h.tested) as tested, sum(h.matched) as matched,
                   pgq._filter_parse(d.document) as tree
            from pgq.filter_hit h join pgq.filter d on d.filter_id = h.filter_id
            where h.queue_id = queue.queue_id and h.used_at > _lane_wishes.now - interval '1 day'
              and d.lane_keys is not distinct from queue.lane_keys
            group by d.filter_id
            order by 1 desc limit 100
        ) f
        cross join lateral pgq._filter_fields(f.tree) k (key)
        where exists (
            select from pgq._filter_project(f.tree, array[k.key]) w where w.tree <> 'true')
        group by 1;
end
$$;
comment on function pgq._lane_wishes(pgq.queue, timestamptz) is
    'How many messages filters have tested in a queue, by the fields that could prune the tests.';
