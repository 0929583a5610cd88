-- Raises 42704 for a schedule that does not exist.
create or replace function pgq._refuse_schedule(name text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'schedule "%" does not exist', coalesce(name, '<null>')
        using errcode = 'undefined_object', hint = 'select * from pgq.schedules lists them.';
end
$$;
comment on function pgq._refuse_schedule(text) is 'Raises an error for a schedule that is missing.';
