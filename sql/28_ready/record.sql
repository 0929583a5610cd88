-- Records in the audit log what was done to messages of a queue by a caller without a lease, and
-- counts it.
create or replace function pgq._record(
    queue_id int, event text, attempt int, ids int8multirange, note text
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into pgq.journal (at, queue_id, event, attempt, size, holder, client, error, ids)
    values (pgq.now(), _record.queue_id, _record.event, _record.attempt,
            pgq._set_size(_record.ids), nullif(current_setting('application_name'), ''),
            inet_client_addr(), note, _record.ids);
    insert into pgq.outcome (queue_id, event, size)
    values (_record.queue_id, _record.event, pgq._set_size(_record.ids));
end
$$;
comment on function pgq._record(int, text, int, int8multirange, text) is
    'Records an operation on messages of a queue by a caller without a lease.';
