-- Invariants of id sets: their messages are in the log, and each is in one place only.
create or replace function pgq._check_sets()
returns table (problem text, queue_id int, detail text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        with held as materialized (
            select * from pgq._held()
        ), queue as materialized (
            select h.queue_id, sum(h.size) as size, range_agg(h.ids) as ids,
                   range_agg(h.ids) filter (where h.place <> 'dead_letter') as needed
            from held h group by h.queue_id
        ), missing as materialized (
            select q.queue_id, q.needed - coalesce((
                       select range_agg(int8range(m.id, m.id + 1)) from unnest(q.needed) r
                       join pgq.message m on m.id >= lower(r) and m.id < upper(r)), '{}') as ids
            from queue q
        )
        select 'a set is empty', h.queue_id, h.place
        from held h where isempty(h.ids)
        union all
        select 'a set has another size than it says', h.queue_id,
               format('%s %s: %s', h.place, h.ids, h.size)
        from held h where h.size <> pgq._set_size(h.ids)
        union all
        select 'a message is in two places', q.queue_id,
               format('%s messages, once each: %s', q.size, pgq._set_size(q.ids))
        from queue q where q.size <> pgq._set_size(q.ids)
        union all
        select case h.place when 'lease' then 'a lease has ids of no message'
               else 'a set has ids of no message' end,
               h.queue_id, concat_ws(' ', h.place, h.lease_id || ':', h.ids * m.ids)
        from missing m join held h on h.queue_id = m.queue_id and h.ids && m.ids
        where m.ids <> '{}' and h.place <> 'dead_letter'
        union all
        select 'a set belongs to no queue', h.queue_id, h.place
        from held h
        where not exists (select from pgq.queue q where q.queue_id = h.queue_id);
end
$$;
comment on function pgq._check_sets() is 'Verifies that sets hold messages of the log, once each.';
