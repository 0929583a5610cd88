-- Notifies the sessions that wait for the end of one of these messages, if there are any.
create or replace function pgq._wake_results(ids int8multirange) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_notify('pgq_result', w.message_id::text)
    from unnest(_wake_results.ids) r
    join pgq.result_waiter w on w.message_id >= lower(r) and w.message_id < upper(r)
    where w.until > pgq.now();
end
$$;
comment on function pgq._wake_results(int8multirange) is
    'Notifies the sessions that wait for the end of one of these messages.';
