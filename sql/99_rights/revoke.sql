-- No routine of pgq is open to PUBLIC. pgq.grant_queue grants roles those that they need.
revoke all on all routines in schema pgq from public;

-- Nor is a type. Row types of tables and views are revoked when a role gets its first right (see
-- pgq._close_types), because pg_dump warns of each one that the script of an extension has revoked.
do $$
declare
    v_type pg_catalog.oid;
begin
    for v_type in
        select t.oid from pg_catalog.pg_type t
        left join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) t.typrelid
        where t.typnamespace operator(pg_catalog.=) 'pgq'::regnamespace
          and (t.typtype operator(pg_catalog.=) 'd' or c.relkind operator(pg_catalog.=) 'c')
          and pg_catalog.has_type_privilege('public', t.oid, 'usage')
    loop
        execute pg_catalog.format('revoke all on type %s from public', v_type::regtype);
    end loop;
end
$$;
