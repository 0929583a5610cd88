create or replace function pgmq.metrics_all() returns setof pgmq.metrics_result
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._metrics();
end
$$;
comment on function pgmq.metrics_all() is 'Counts of all queues.';
