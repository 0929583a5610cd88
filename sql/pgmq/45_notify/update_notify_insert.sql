create or replace function pgmq.update_notify_insert(queue_name text, throttle_interval_ms int)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgmq.list_notify_insert_throttles() n
    where n.queue_name = update_notify_insert.queue_name;
    if not found then
        raise exception 'queue "%" does not notify', queue_name
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Begin with pgmq.enable_notify_insert(queue_name).';
    end if;
    perform pgmq._set_notify(queue_name, coalesce(throttle_interval_ms, 250));
end
$$;
comment on function pgmq.update_notify_insert(text, int) is
    'Changes how often the senders of a queue notify.';
