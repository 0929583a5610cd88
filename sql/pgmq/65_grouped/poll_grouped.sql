create or replace function pgmq._poll_grouped(
    queue_name text, vt int, qty int, mode text, max_poll_seconds int, poll_interval_ms int
) returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_until timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
    while clock_timestamp() < v_until loop
        return query select * from pgmq._read_grouped(queue_name, vt, qty, mode);
        exit when found;
        perform pg_sleep(poll_interval_ms / 1000.0);
    end loop;
end
$$;
comment on function pgmq._poll_grouped(text, int, int, text, int, int) is
    'Reads by groups; if there is nothing, polls until max_poll_seconds are over.';
