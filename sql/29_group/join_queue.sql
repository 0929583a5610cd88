-- Puts messages of ordering groups into a queue.
create or replace function pgq._join_queue(queue pgq.queue, ids bigint[], now timestamptz)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._admit_heads(
        queue, pgq._join_groups(queue.queue_id, ids, null), null, now);
end
$$;
comment on function pgq._join_queue(pgq.queue, bigint[], timestamptz) is
    'Puts messages of ordering groups into a queue.';
