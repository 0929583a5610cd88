-- Drops an empty queue; one with messages only by force.
create or replace function pgq.drop_queue(
    queue text, force boolean default false, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', drop_queue.queue);
begin
    if not drop_queue.force and (
        exists (select from pgq.ready r where r.queue_id = v_queue.queue_id)
        or exists (select from pgq.scheduled s where s.queue_id = v_queue.queue_id)
        or exists (select from pgq.group_line g where g.queue_id = v_queue.queue_id)
        or exists (select from pgq.lease l where l.queue_id = v_queue.queue_id)
        or exists (select from pgq.letter d where d.queue_id = v_queue.queue_id))
    then
        raise exception 'queue "%" still holds messages', drop_queue.queue
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Purge it, discard its dead letters, or use force => true.';
    end if;
    if pgq._is_owner(caller) then
        perform pgq._lock_rights();  -- no role gets a right to the queue meanwhile
    end if;
    -- Not left to a foreign key, which does nothing under session_replication_role = replica.
    delete from pgq.binding b where b.queue_id = v_queue.queue_id;
    delete from pgq.queue q where q.queue_id = v_queue.queue_id;
    if not found then
        return false;
    end if;
    perform pgq._rerouted(caller);
    -- maintain() deletes what a transaction in flight may still add for this queue.
    perform pgq._gc_queue(v_queue.queue_id);
    -- Other roles leave it to maintain(): a change of privileges blocks all others until the
    -- transaction ends.
    if pgq._is_owner(caller) then
        perform pgq._gc_access();
    end if;
    return true;
end
$$;
comment on function pgq.drop_queue(text, boolean, pgq.caller) is
    'Drops a queue. If it has messages or dead letters, force => true is needed, and they are '
    'deleted. Returns false if another session has dropped it meanwhile.';
