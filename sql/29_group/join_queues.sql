-- The same for several queues; queues and ids are parallel arrays. In the order of queue ids, so
-- that two batches cannot deadlock.
create or replace function pgq._join_queues(queues int[], ids bigint[], now timestamptz)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
begin
    for v_queue in
        select q.* from pgq.queue q where q.queue_id = any (queues) order by q.queue_id
    loop
        perform pgq._join_queue(v_queue, array(
            select g.id from unnest(queues, _join_queues.ids) g (queue_id, id)
            where g.queue_id = v_queue.queue_id), now);
    end loop;
end
$$;
comment on function pgq._join_queues(int[], bigint[], timestamptz) is
    'Puts messages of ordering groups into several queues.';
