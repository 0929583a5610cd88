-- Removes the registration of a consumer that is awake: publishing need not notify it.
create or replace function pgq.wait_end(
    queue text, waiter text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', wait_end.queue);
begin
    delete from pgq.waiter w
    where w.queue_id = v_queue.queue_id and w.waiter = wait_end.waiter;
    return found;
end
$$;
comment on function pgq.wait_end(text, text, pgq.caller) is
    'Removes the registration of a waiting consumer. Call it when the consumer has found '
    'messages, so that a busy queue sends no notifications. Returns false if the consumer was not '
    'registered.';
