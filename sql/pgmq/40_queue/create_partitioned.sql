create or replace function pgmq.create_partitioned(
    queue_name text,
    partition_interval text default '10000',
    retention_interval text default '100000',
    premake int default 4
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._create(queue_name, true, false);
end
$$;
comment on function pgmq.create_partitioned(text, text, text, int) is
    'Creates a queue. Intervals are ignored: the log of pgq is a ring of partitions already.';
