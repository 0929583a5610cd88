"""Every fact of the catalog about schema pgq, one line each, in a stable order.

Two installations with the same lines have the same objects. Long definitions are hashed: the line
then says which object differs, and the sources say how.
"""

from __future__ import annotations

import psycopg

# Access rights in a fixed order, whatever the order in which they were granted.
_ACL = "(select string_agg(a::text, ' ' order by a::text) from unnest({}) a)"

_QUERIES: dict[str, str] = {
    "schema": f"""
        select nspname, nspowner::regrole, {_ACL.format("nspacl")},
               obj_description(oid, 'pg_namespace')
          from pg_namespace where nspname = 'pgq'""",
    "relation": f"""
        select c.oid::regclass, c.relkind, c.relpersistence, c.relowner::regrole,
               array_to_string(c.reloptions, ' '), c.relrowsecurity, c.relforcerowsecurity,
               c.relreplident, pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid),
               (select string_agg(i.inhparent::regclass::text, ' ') from pg_inherits i
                 where i.inhrelid = c.oid),
               {_ACL.format("c.relacl")},
               md5(case when c.relkind in ('v', 'm') then pg_get_viewdef(c.oid) end),
               obj_description(c.oid, 'pg_class')
          from pg_class c
         where c.relnamespace = 'pgq'::regnamespace and c.relkind not in ('i', 'I', 't')""",
    "column": f"""
        select a.attrelid::regclass, row_number() over (partition by a.attrelid order by a.attnum),
               a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attstorage,
               a.attcompression, a.attstattarget, a.attcollation::regcollation,
               array_to_string(a.attoptions, ' '), {_ACL.format("a.attacl")},
               col_description(a.attrelid, a.attnum)
          from pg_attribute a
          join pg_class c on c.oid = a.attrelid
          left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
         where c.relnamespace = 'pgq'::regnamespace and c.relkind not in ('i', 'I', 't', 'S')
           and a.attnum > 0 and not a.attisdropped""",
    "sequence": """
        select s.seqrelid::regclass, s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmin,
               s.seqmax, s.seqcache, s.seqcycle,
               (select d.refobjid::regclass || ' ' || d.refobjsubid from pg_depend d
                 where d.objid = s.seqrelid and d.classid = 'pg_class'::regclass
                   and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i'))
          from pg_sequence s join pg_class c on c.oid = s.seqrelid
         where c.relnamespace = 'pgq'::regnamespace""",
    "constraint": """
        select coalesce(nullif(c.conrelid, 0)::regclass::text, c.contypid::regtype::text),
               c.conname, c.contype, pg_get_constraintdef(c.oid), c.convalidated,
               obj_description(c.oid, 'pg_constraint')
          from pg_constraint c where c.connamespace = 'pgq'::regnamespace""",
    "index": """
        select i.indexrelid::regclass, pg_get_indexdef(i.indexrelid), i.indisprimary,
               i.indisunique, i.indisvalid, i.indisreplident, i.indisclustered,
               obj_description(i.indexrelid, 'pg_class')
          from pg_index i join pg_class c on c.oid = i.indrelid
         where c.relnamespace = 'pgq'::regnamespace""",
    "trigger": """
        select t.tgrelid::regclass, t.tgname, pg_get_triggerdef(t.oid), t.tgenabled,
               obj_description(t.oid, 'pg_trigger')
          from pg_trigger t join pg_class c on c.oid = t.tgrelid
         where c.relnamespace = 'pgq'::regnamespace and not t.tgisinternal""",
    "rule": """
        select r.ev_class::regclass, r.rulename, md5(pg_get_ruledef(r.oid)), r.ev_enabled
          from pg_rewrite r join pg_class c on c.oid = r.ev_class
         where c.relnamespace = 'pgq'::regnamespace and r.rulename <> '_RETURN'""",
    "policy": """
        select p.polrelid::regclass, p.polname, p.polcmd, p.polpermissive,
               p.polroles::regrole[]::text, pg_get_expr(p.polqual, p.polrelid),
               pg_get_expr(p.polwithcheck, p.polrelid)
          from pg_policy p join pg_class c on c.oid = p.polrelid
         where c.relnamespace = 'pgq'::regnamespace""",
    "function": f"""
        select p.oid::regprocedure, p.prokind, p.proowner::regrole,
               md5(case when p.prokind <> 'a' then pg_get_functiondef(p.oid) end),
               (select row(a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggtranstype::regtype,
                           a.agginitval)::text
                  from pg_aggregate a where a.aggfnoid = p.oid),
               {_ACL.format("p.proacl")}, obj_description(p.oid, 'pg_proc')
          from pg_proc p where p.pronamespace = 'pgq'::regnamespace""",
    "type": f"""
        select t.oid::regtype, t.typtype, t.typowner::regrole, t.typnotnull, t.typdefault,
               format_type(nullif(t.typbasetype, 0), t.typtypmod),
               (select string_agg(e.enumlabel, ' ' order by e.enumsortorder) from pg_enum e
                 where e.enumtypid = t.oid),
               {_ACL.format("t.typacl")}, obj_description(t.oid, 'pg_type')
          from pg_type t where t.typnamespace = 'pgq'::regnamespace and t.typcategory <> 'A'""",
    "operator": """
        select o.oid::regoperator, o.oprcode, o.oprcom::regoperator, o.oprnegate::regoperator,
               o.oprrest, o.oprjoin, obj_description(o.oid, 'pg_operator')
          from pg_operator o where o.oprnamespace = 'pgq'::regnamespace""",
    "statistics": """
        select s.stxname, pg_get_statisticsobjdef(s.oid)
          from pg_statistic_ext s where s.stxnamespace = 'pgq'::regnamespace""",
}

_EXTENSION_QUERIES: dict[str, str] = {
    "dumped": """
        select t.oid::regclass, t.condition
          from pg_extension e,
               unnest(e.extconfig, e.extcondition) as t (oid, condition)
         where e.extname = 'pgq'""",
    "member": """
        select pg_describe_object(d.classid, d.objid, d.objsubid)
          from pg_depend d
          join pg_extension e on e.oid = d.refobjid and d.refclassid = 'pg_extension'::regclass
         where e.extname = 'pgq' and d.deptype = 'e'
           and pg_describe_object(d.classid, d.objid, d.objsubid) not like '%pg_toast%'""",
}


def fingerprint(conn: psycopg.Connection, *, extension: bool = False) -> list[str]:
    """Return the facts about schema pgq, with those about the extension if asked for."""
    lines = []
    queries = _QUERIES | (_EXTENSION_QUERIES if extension else {})
    with conn.transaction():
        # Names are written in full, whatever the caller's search_path.
        conn.execute("set local search_path = pg_catalog, pg_temp")
        for kind, query in queries.items():
            if kind != "schema" and not _has_schema(conn):
                continue
            rows = conn.execute(f"select row(q.*)::text from ({query}) q".encode()).fetchall()
            lines += sorted(f"{kind} {row[0]}".replace("\n", " ") for row in rows)
    return lines


def _has_schema(conn: psycopg.Connection) -> bool:
    return conn.execute("select from pg_namespace where nspname = 'pgq'").fetchone() is not None
