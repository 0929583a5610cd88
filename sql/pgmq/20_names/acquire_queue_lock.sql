create or replace function pgmq.acquire_queue_lock(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_advisory_xact_lock(hashtext('pgmq.queue_' || queue_name));
end
$$;
comment on function pgmq.acquire_queue_lock(text) is
    'Locks the creation and removal of a queue until the transaction ends.';
