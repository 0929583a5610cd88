-- Whether every snapshot of this database, also those to come, sees what that transaction did.
create or replace function pgq._is_seen(xid xid8) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return pg_visible_in_snapshot(_is_seen.xid, pg_current_snapshot())
        and _is_seen.xid is distinct from pg_current_xact_id_if_assigned()
        and not exists (
            select from pg_stat_activity a
            where a.datid = (select d.oid from pg_database d where d.datname = current_database())
              and a.pid <> pg_backend_pid() and age(a.backend_xmin) >= age(xid(_is_seen.xid)));
end
$$;
comment on function pgq._is_seen(xid8) is
    'Whether every snapshot of this database sees what that transaction did.';
