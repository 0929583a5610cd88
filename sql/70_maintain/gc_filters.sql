-- Adds up the statistics of filters, and deletes filters that were not used for a day.
create or replace function pgq._gc_filters(now timestamptz, most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int;
begin
    with gone as (
        delete from pgq.filter_hit h
        where h.ctid = any (array(
            select i.ctid from pgq.filter_hit i limit most for update skip locked))
        returning h.*
    ), added as (
        insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at, last_at)
        select g.filter_id, g.queue_id, sum(g.claims), sum(g.tested), sum(g.matched),
               max(g.used_at), max(g.last_at)
        from gone g group by 1, 2
    )
    select count(*)::int into v_count from gone;

    delete from pgq.filter f
    where f.created_at < _gc_filters.now - interval '1 day'
      and not exists (
          select from pgq.filter_hit h
          where h.filter_id = f.filter_id and h.used_at > _gc_filters.now - interval '1 day');
    -- The statistics of deleted filters still count for their queue, under filter_id 0.
    with gone as (
        delete from pgq.filter_hit h
        where h.filter_id <> 0
          and not exists (select from pgq.filter f where f.filter_id = h.filter_id)
        returning h.*
    )
    insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at, last_at)
    select 0, g.queue_id, sum(g.claims), sum(g.tested), sum(g.matched), max(g.used_at),
           max(g.last_at)
    from gone g group by g.queue_id;
    delete from pgq.filter_hit h
    where not exists (select from pgq.queue q where q.queue_id = h.queue_id);
    delete from pgq.filter_scan s
    where not exists (select from pgq.filter f where f.filter_id = s.filter_id)
       or not exists (select from pgq.queue q where q.queue_id = s.queue_id);
    -- Claims use the newest scan cursor of a filter: delete the others.
    delete from pgq.filter_scan s
    where exists (select from pgq.filter_scan n
                  where n.filter_id = s.filter_id and n.queue_id = s.queue_id
                    and (n.noted_at, n.ctid) > (s.noted_at, s.ctid));
    return v_count;
end
$$;
comment on function pgq._gc_filters(timestamptz, int) is
    'Adds up the statistics of filters, and deletes unused filters.';
