create or replace function pgmq.read_grouped_with_poll(
    queue_name text, vt int, qty int, max_poll_seconds int default 5,
    poll_interval_ms int default 100
) returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._poll_grouped(
        queue_name, vt, qty, 'whole', max_poll_seconds, poll_interval_ms);
end
$$;
comment on function pgmq.read_grouped_with_poll(text, int, int, int, int) is
    'As pgmq.read_grouped; if there is nothing, polls until max_poll_seconds are over.';
