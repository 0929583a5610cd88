create or replace function pgmq.create_fifo_indexes_all() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    null;
end
$$;
comment on function pgmq.create_fifo_indexes_all() is 'Changes nothing: no index is needed.';
