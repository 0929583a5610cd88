-- Revokes the row types of pgq from PUBLIC. A column of such a type, in a table of another role,
-- would keep an upgrade from altering the table that the type belongs to. Locks no table, so it may
-- run beside an upgrade.
create or replace function pgq._close_types() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_type regtype;
begin
    for v_type in
        select t.oid::regtype from pg_type t
        where t.typnamespace = 'pgq'::regnamespace and t.typtype = 'c'
          and has_type_privilege('public', t.oid, 'usage')
    loop
        execute format('revoke all on type %s from public', v_type);
    end loop;
end
$$;
comment on function pgq._close_types() is 'Revokes the row types of pgq from PUBLIC.';
