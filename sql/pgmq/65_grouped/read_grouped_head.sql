create or replace function pgmq.read_grouped_head(queue_name text, vt int, qty int)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._read_grouped(queue_name, vt, qty, 'head');
end
$$;
comment on function pgmq.read_grouped_head(text, int, int) is
    'Reads the first message of each free group.';
