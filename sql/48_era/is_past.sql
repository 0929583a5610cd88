-- Whether all transactions of this database with an id before that one have ended. Reads the list
-- of backends, because a snapshot also contains the transactions of other databases.
create or replace function pgq._is_past(xid xid8) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return not exists (
            select from pg_stat_activity a
            where a.datid = (select d.oid from pg_database d where d.datname = current_database())
              and a.pid <> pg_backend_pid() and age(a.backend_xid) > age(xid(_is_past.xid)))
        and not exists (
            select from pg_prepared_xacts p
            where p.database = current_database() and age(p.transaction) > age(xid(_is_past.xid)));
end
$$;
comment on function pgq._is_past(xid8) is
    'Whether all transactions of this database before that one have ended.';
