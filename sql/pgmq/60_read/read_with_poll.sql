create or replace function pgmq.read_with_poll(
    queue_name text,
    vt int,
    qty int,
    max_poll_seconds int default 5,
    poll_interval_ms int default 100,
    conditional jsonb default '{}'
) returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_until timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
    while clock_timestamp() < v_until loop
        return query select * from pgmq.read(queue_name, vt, qty, conditional);
        exit when found;
        perform pg_sleep(poll_interval_ms / 1000.0);
    end loop;
end
$$;
comment on function pgmq.read_with_poll(text, int, int, int, int, jsonb) is
    'Reads messages; if there are none, polls until max_poll_seconds are over.';
