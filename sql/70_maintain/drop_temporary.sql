-- Drops a queue whose process has ended. Clients create such queues for subscribers that are not
-- durable, name them "temporary.", and renew the stream "owner" of the queue while they run. Leaves
-- the rights alone, as a drop by a role does, so that maintenance waits for no change of rights.
create or replace function pgq._drop_temporary(queue pgq.queue, now timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.stream s
    where s.queue_id = queue.queue_id and s.consumer = 'owner' and s.until <= now
    for update skip locked;
    if not found then
        return false;
    end if;
    delete from pgq.binding b where b.queue_id = queue.queue_id;
    delete from pgq.queue q where q.queue_id = queue.queue_id;
    perform pgq._rerouted();
    perform pgq._gc_queue(queue.queue_id);
    return true;
end
$$;
comment on function pgq._drop_temporary(pgq.queue, timestamptz) is
    'Drops a queue whose process has ended.';
