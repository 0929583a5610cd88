create or replace function pgmq.create_non_partitioned(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._create(queue_name, false, false);
end
$$;
comment on function pgmq.create_non_partitioned(text) is 'Creates a queue, if there is none.';
