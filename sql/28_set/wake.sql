-- Notifies the consumers that wait for a queue, if there are any.
create or replace function pgq._wake(queue_id int) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- PostgreSQL sends equal notifications of a transaction once. Every role that can connect hears
    -- them: where not all may know of all queues, the name is not said.
    perform pg_notify('pgq', case when exists (select from pgq.queue_right) then q.signal::text
                             else q.name end)
    from pgq.queue q
    where q.queue_id = _wake.queue_id
      and (exists (select from pgq.waiter w
                   where w.queue_id = q.queue_id and w.until > pgq.now())
           -- An old snapshot may not know who waits.
           or current_setting('transaction_isolation') <> 'read committed');
end
$$;
comment on function pgq._wake(int) is 'Notifies the consumers that wait for a queue.';
revoke all on function pgq._wake(int) from public;
