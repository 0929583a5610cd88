-- Serializes changes of rights: PostgreSQL itself fails when two sessions change the privileges of
-- one object at once.
create or replace function pgq._lock_rights() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._lock('right');
end
$$;
comment on function pgq._lock_rights() is 'Serializes changes of rights.';
