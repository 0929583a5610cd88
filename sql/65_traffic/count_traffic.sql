-- Adds the events since the last count to pgq.traffic, and records how far it has counted. One
-- statement, because it must record the snapshot that it reads with. Called at the beginning of a
-- transaction, whose own rows are left to the next count.
create or replace function pgq._count_traffic(now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from pgq.maintenance m
               where m.counted_at > _count_traffic.now - interval '10 s'
                 and m.counted_at <= _count_traffic.now)
    then
        return;
    end if;
    with fresh as materialized (
        select u.queue_id, u.minute, u.event, u.size from pgq._uncounted(false) u
        join pgq.queue q on q.queue_id = u.queue_id
    ), added as (
        insert into pgq.traffic as t (queue_id, minute, event, size)
        select f.queue_id, f.minute, f.event, f.size from fresh f
        on conflict on constraint traffic_pkey do update set size = t.size + excluded.size
    )
    update pgq.maintenance m
    set counted_at = _count_traffic.now, counted_seen = pg_current_snapshot(),
        counted_by = pg_current_xact_id(),
        before_id = m.counted_id, before_pages = m.counted_pages,
        counted_id = coalesce(pg_sequence_last_value('pgq.message_id'), 0),
        counted_pages = array(
            select (pg_relation_size(r) / current_setting('block_size')::bigint)::int
            from unnest('{pgq.journal_0,pgq.journal_1,pgq.journal_2}'::regclass[]) r);

    insert into pgq.traffic as t (queue_id, minute, event, size)
    select q.queue_id, date_trunc('minute', _count_traffic.now), x.event, x.size
    from pgq.queue q
    cross join lateral (
        select 'ready' as event, coalesce(sum(r.size), 0) as size
        from pgq.ready r where r.queue_id = q.queue_id
        union all
        select 'dead', count(*) from pgq.letter d where d.queue_id = q.queue_id
    ) x
    on conflict on constraint traffic_pkey do update set size = excluded.size;
    delete from pgq.traffic t using pgq.queue q
    where t.queue_id = q.queue_id
      and t.minute < _count_traffic.now - pgq._limit('traffic_hours') * interval '1 h';
end
$$;
comment on function pgq._count_traffic(timestamptz) is
    'Adds the events since the last count to pgq.traffic.';
