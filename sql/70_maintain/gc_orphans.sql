-- Deletes rows of dropped queues that concurrent transactions have left, unaware of drop_queue.
create or replace function pgq._gc_orphans() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id int;
begin
    for v_queue_id in
        -- A loose index scan: from one queue to the next, however many rows a queue has.
        with recursive present as (
            select min(r.queue_id) as queue_id from pgq.ready r
            union all
            select (select min(r.queue_id) from pgq.ready r where r.queue_id > p.queue_id)
            from present p where p.queue_id is not null
        ), planned as (
            select min(s.queue_id) as queue_id from pgq.scheduled s
            union all
            select (select min(s.queue_id) from pgq.scheduled s where s.queue_id > p.queue_id)
            from planned p where p.queue_id is not null
        ), dead as (
            select min(d.queue_id) as queue_id from pgq.letter d
            union all
            select (select min(d.queue_id) from pgq.letter d where d.queue_id > p.queue_id)
            from dead p where p.queue_id is not null
        ), headed as (
            select min(h.queue_id) as queue_id from pgq.group_head h
            union all
            select (select min(h.queue_id) from pgq.group_head h where h.queue_id > p.queue_id)
            from headed p where p.queue_id is not null
        ), keyed as (
            select min(d.queue_id) as queue_id from pgq.dedup d
            union all
            select (select min(d.queue_id) from pgq.dedup d where d.queue_id > p.queue_id)
            from keyed p where p.queue_id is not null
        )
        select i.queue_id
        from (
            select p.queue_id from present p
            union select p.queue_id from planned p
            union select p.queue_id from dead p
            union select p.queue_id from headed p
            union select p.queue_id from keyed p
            union select distinct l.queue_id from pgq.lease l
            union select distinct l.queue_id from pgq.lane l
            union select distinct c.queue_id from pgq.lane_choice c
            union select distinct w.queue_id from pgq.waiter w
            union select s.queue_id from pgq.stream s
            union select l.queue_id from pgq.lineage l
            union select r.queue_id from pgq.relay r
        ) i
        where i.queue_id is not null
          and not exists (select from pgq.queue q where q.queue_id = i.queue_id)
    loop
        perform pgq._gc_queue(v_queue_id);
    end loop;
end
$$;
comment on function pgq._gc_orphans() is 'Deletes rows of dropped queues.';
