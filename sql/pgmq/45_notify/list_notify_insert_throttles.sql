create or replace function pgmq.list_notify_insert_throttles()
returns table (queue_name text, throttle_interval_ms int, last_notified_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
        select n.queue_name, n.throttle_interval_ms, n.last_notified_at
        from pgmq.notify_insert_throttle n order by n.queue_name;
end
$$;
comment on function pgmq.list_notify_insert_throttles() is
    'The queues whose senders notify, and how often.';
