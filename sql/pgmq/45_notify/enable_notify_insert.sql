create or replace function pgmq.enable_notify_insert(
    queue_name text, throttle_interval_ms int default 250
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._set_notify(queue_name, coalesce(throttle_interval_ms, 250));
end
$$;
comment on function pgmq.enable_notify_insert(text, int) is
    'Makes senders notify the listeners of a queue, at most once per interval.';
