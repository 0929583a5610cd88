-- Notifies the consumers that wait for a queue, if there are any.
create or replace function pgq._wake(queue_id int) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- An old snapshot may not show all waiters.
    if exists (select from pgq.waiter w
               where w.queue_id = _wake.queue_id and w.until > pgq.now())
       or current_setting('transaction_isolation') <> 'read committed'
    then
        -- PostgreSQL sends equal notifications of a transaction once, from version 19 on only to
        -- sessions that listen on the channel.
        perform pg_notify(q.channel, '') from pgq.queue q where q.queue_id = _wake.queue_id;
    end if;
end
$$;
comment on function pgq._wake(int) is 'Notifies the consumers that wait for a queue.';
