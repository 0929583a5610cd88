-- Removes everything that belonged to a dropped queue.
create or replace function pgq._gc_queue(queue_id int) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgq.ready r where r.queue_id = _gc_queue.queue_id;
    delete from pgq.scheduled s where s.queue_id = _gc_queue.queue_id;
    delete from pgq.lease l where l.queue_id = _gc_queue.queue_id;
    delete from pgq.letter d where d.queue_id = _gc_queue.queue_id;
    delete from pgq.group_head g where g.queue_id = _gc_queue.queue_id;
    delete from pgq.group_line g where g.queue_id = _gc_queue.queue_id;
    delete from pgq.group_stall g where g.queue_id = _gc_queue.queue_id;
    delete from pgq.relay r where r.queue_id = _gc_queue.queue_id;
    delete from pgq.lineage l where l.queue_id = _gc_queue.queue_id;
    delete from pgq.stream s where s.queue_id = _gc_queue.queue_id;
    delete from pgq.waiter w where w.queue_id = _gc_queue.queue_id;
    delete from pgq.traffic t where t.queue_id = _gc_queue.queue_id;
    delete from pgq.outcome o where o.queue_id = _gc_queue.queue_id;
    delete from pgq.dedup d where d.queue_id = _gc_queue.queue_id;
    delete from pgq.flow f where f.queue_id = _gc_queue.queue_id;
    delete from pgq.lane l where l.queue_id = _gc_queue.queue_id;
    delete from pgq.lane_choice c where c.queue_id = _gc_queue.queue_id;
end
$$;
comment on function pgq._gc_queue(int) is 'Removes everything that belonged to a dropped queue.';
