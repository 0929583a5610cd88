create or replace function pgmq.read_grouped_rr(queue_name text, vt int, qty int)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._read_grouped(queue_name, vt, qty, 'rr');
end
$$;
comment on function pgmq.read_grouped_rr(text, int, int) is
    'Reads messages of all free groups in turns.';
