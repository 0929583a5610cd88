-- Starts the subscriptions that roles have made with since or since_id: adds the messages of the
-- log, as pgq.subscribe does for the owner. Last in a slice of maintenance: publishers wait for it.
create or replace function pgq._begin_bindings() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
declare
    v_queue pgq.queue;
    v_binding pgq.binding;
begin
    if not exists (select from pgq.binding b where b.pending) then
        return;
    end if;
    lock table pgq.message in share row exclusive mode;
    for v_binding in
        update pgq.binding b set pending = false, created_at = pgq.now()
        where b.ctid = any (array(
            select c.ctid from pgq.binding c where c.pending for update skip locked))
        returning b.*
    loop
        perform pgq._rerouted();
        select q.* into v_queue from pgq.queue q where q.queue_id = v_binding.queue_id;
        perform pgq._backfill(v_queue, v_binding, v_binding.since, v_binding.since_id);
    end loop;
exception
    when lock_not_available then
        null;  -- a publisher is open for long: the next call tries again
end
$$;
comment on function pgq._begin_bindings() is
    'Starts the subscriptions that roles have made with since or since_id.';
