-- Removes the rights of roles that were dropped, or have lost their privileges by DROP OWNED.
create or replace function pgq._gc_rights() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgq.queue_right r
    where not exists (
        select from pg_namespace n cross join lateral aclexplode(n.nspacl) a
        where n.nspname = 'pgq' and a.grantee = r.role and a.privilege_type = 'USAGE');
end
$$;
comment on function pgq._gc_rights() is 'Removes the rights of roles that cannot use them.';
