-- NOTIFY for listeners of pgmq, on the channel pgmq.q_<queue>.INSERT, by senders of pgmq.
create or replace function pgmq._notify(queue_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from pgmq.notify_insert_throttle n
               where n.queue_name = _notify.queue_name
                 and n.last_notified_at + n.throttle_interval_ms * interval '1 ms'
                     <= clock_timestamp())
    then
        update pgmq.notify_insert_throttle n set last_notified_at = clock_timestamp()
        where n.queue_name = _notify.queue_name;
        perform pg_notify(
            'pgmq.' || pgmq.format_table_name(queue_name, 'q') || '.INSERT', null);
    end if;
end
$$;
comment on function pgmq._notify(text) is 'Notifies the listeners of a queue, if that is enabled.';
