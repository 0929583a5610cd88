-- Exists for compatibility only.
create or replace function pgmq.detach_archive(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    raise warning 'detach_archive changes nothing';
end
$$;
comment on function pgmq.detach_archive(text) is 'Changes nothing, as in pgmq.';
