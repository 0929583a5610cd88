-- Roles that lack functions which publishers or consumers need. Null: checks all roles that may use
-- the schema.
create or replace function pgq._grant_findings(role text) returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with work (kind, names) as (
            values ('publish', '{publish,publish_batch}'::text[]),
                   ('consume', '{claim,peek,leased,ack,nack,bury,release,extend,wait_begin,'
                               'wait_end,channel}')
        ), named as (
            select r.rolname from pg_roles r where r.rolname = _grant_findings.role
            union
            select r.rolname
            from pg_namespace n, aclexplode(n.nspacl) a join pg_roles r on r.oid = a.grantee
            where n.nspname = 'pgq' and _grant_findings.role is null
              and r.rolname <> 'pg_monitor'  -- it reads metrics, and nothing else
        ), held as (
            select r.rolname, w.kind, p.oid,
                   has_function_privilege(r.rolname, p.oid, 'execute') as granted
            from named r, work w, pg_proc p
            where p.pronamespace = 'pgq'::regnamespace and p.proname = any (w.names)
        ), lacking as (
            select h.rolname, h.kind, bool_or(h.granted) as some,
                   array_agg(h.oid::regprocedure::text order by h.oid) filter (
                       where not h.granted) as list
            from held h group by 1, 2
        )
        select 'warning', null::text, 'rights', null::timestamptz,
               format('role %s: it may not use the schema pgq', r.rolname),
               format('select pgq.grant_queue(%L, %L, %L)', 'QUEUE', r.rolname, 'consume')
        from named r where not has_schema_privilege(r.rolname, 'pgq', 'usage')
        union all
        select 'warning', null, 'rights', null,
               format('role %s: to %s it lacks %s functions: %s', l.rolname, l.kind,
                      cardinality(l.list), array_to_string(l.list, ', ')),
               format('select pgq.grant_queue(%L, %L, %L)', 'QUEUE', l.rolname, l.kind)
        from lacking l
        where l.list is not null
          and (l.some or _grant_findings.role is not null
               or not exists (select from lacking o where o.rolname = l.rolname and o.some))
        union all
        select 'warning', null, 'rights', null,
               format('role %s: there is no such role', _grant_findings.role),
               format('create role %I', _grant_findings.role)
        where _grant_findings.role is not null and not exists (select from named);
end
$$;
comment on function pgq._grant_findings(text) is
    'Roles that lack functions which publishers or consumers need.';
