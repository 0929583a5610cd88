-- Sets the throttle of a queue that the caller may administer; null: no notifications.
create or replace function pgmq._set_notify(
    queue_name text, throttle_interval_ms int, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', queue_name);
begin
    if throttle_interval_ms is null then
        delete from pgmq.notify_insert_throttle n where n.queue_name = v_queue.name;
        return;
    elsif throttle_interval_ms < 0 then
        raise exception 'throttle_interval_ms must not be negative'
            using errcode = 'invalid_parameter_value', hint = 'Use 0 to notify of every send.';
    end if;
    insert into pgmq.notify_insert_throttle (queue_name, throttle_interval_ms)
    values (v_queue.name, _set_notify.throttle_interval_ms)
    on conflict on constraint notify_insert_throttle_pkey do update
    set throttle_interval_ms = excluded.throttle_interval_ms, last_notified_at = to_timestamp(0);
end
$$;
comment on function pgmq._set_notify(text, int, pgq.caller) is
    'Sets how often the senders of a queue notify; null: never.';
