create or replace function pgmq.disable_notify_insert(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._set_notify(queue_name, null);
end
$$;
comment on function pgmq.disable_notify_insert(text) is
    'Stops notifications of senders to the listeners of a queue.';
