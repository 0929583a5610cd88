create or replace function pgmq.convert_archive_partitioned(
    table_name text,
    partition_interval text default '10000',
    retention_interval text default '100000',
    leading_partition int default 10
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    raise notice 'archives are not partitioned here; delete from pgmq.a_<queue> what is too old';
end
$$;
comment on function pgmq.convert_archive_partitioned(text, text, text, int) is
    'Changes nothing: one table holds all archives.';
