-- Drops an empty queue; one with messages only by force.
create or replace function pgq.drop_queue(
    name text, force boolean default false, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', drop_queue.name);
    v_roles regrole[];
begin
    -- Nobody gets a right to the queue meanwhile.
    perform pgq._lock_rights();
    v_roles := array(
        select distinct r.role from pgq.queue_right r where r.queue_id = v_queue.queue_id);
    if not drop_queue.force and (
        exists (select from pgq.ready r where r.queue_id = v_queue.queue_id)
        or exists (select from pgq.scheduled s where s.queue_id = v_queue.queue_id)
        or exists (select from pgq.group_line g where g.queue_id = v_queue.queue_id)
        or exists (select from pgq.lease l where l.queue_id = v_queue.queue_id)
        or exists (select from pgq.dead_letter d where d.queue_id = v_queue.queue_id))
    then
        raise exception 'queue "%" still holds messages', drop_queue.name
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Drain it, discard its dead letters, or use force => true.';
    end if;
    delete from pgq.queue q where q.queue_id = v_queue.queue_id;
    if not found then
        return false;
    end if;
    perform pgq._rerouted();
    -- What a transaction in flight may still add for this queue is swept by maintain().
    perform pgq._sweep_queue(v_queue.queue_id);
    perform pgq._set_access(r) from unnest(v_roles) r;
    return true;
end
$$;
comment on function pgq.drop_queue(text, boolean, pgq.caller) is
    'Drops a queue. One that still holds messages or dead letters is dropped only by force, and '
    'they are gone with it. False if somebody else dropped it meanwhile.';
revoke all on function pgq.drop_queue(text, boolean, pgq.caller) from public;
