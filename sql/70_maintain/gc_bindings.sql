-- Adds up how often subscriptions matched, and counts it as traffic of their queues.
create or replace function pgq._gc_bindings(most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int;
begin
    with gone as (
        delete from pgq.binding_hit h
        where h.ctid = any (array(
            select i.ctid from pgq.binding_hit i limit most for update skip locked))
        returning h.*
    ), added as (
        insert into pgq.binding_hit (binding_id, matches, last_at, added_up)
        select g.binding_id, sum(g.matches), max(g.last_at), true
        from gone g join pgq.binding b on b.binding_id = g.binding_id
        group by 1
    ), counted as (
        insert into pgq.traffic as t (queue_id, minute, event, size)
        select b.queue_id, date_trunc('minute', g.last_at), 'in', sum(g.matches)
        from gone g join pgq.binding b on b.binding_id = g.binding_id
        where not g.added_up group by 1, 2
        on conflict on constraint traffic_pkey do update set size = t.size + excluded.size
    )
    select count(*)::int into v_count from gone;
    return v_count;
end
$$;
comment on function pgq._gc_bindings(int) is 'Adds up the statistics of subscriptions.';
