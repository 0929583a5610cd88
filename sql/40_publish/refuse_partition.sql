-- The default of columns of the partitions of the log: an INSERT that names a partition is not a
-- publish, because no trigger routes it. A restored dump gives all columns.
create or replace function pgq._refuse_partition() returns bigint
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'a partition of the log routes nothing'
        using errcode = 'feature_not_supported',
              hint = 'Insert into pgq.message, or use pgq.publish.';
end
$$;
comment on function pgq._refuse_partition() is 'Rejects an INSERT into a partition of the log.';

-- Only once: it locks the partition.
do $$
declare
    v_table text;
begin
    foreach v_table in array '{message_0,message_1,message_2}'::pg_catalog.text[] loop
        continue when exists (
            select from pg_catalog.pg_attrdef d
            where d.adrelid operator(pg_catalog.=) pg_catalog.format('pgq.%I', v_table)::regclass
              and pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~ '_refuse_partition');
        execute pg_catalog.format(
            'alter table pgq.%I alter id set default pgq._refuse_partition(), '
            'alter published_at set default pg_catalog.to_timestamp(pgq._refuse_partition()), '
            'alter publisher set default pgq._refuse_partition()::pg_catalog.text', v_table);
    end loop;
end
$$;
