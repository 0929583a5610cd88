-- Findings about the server, read with the rights of the caller: snapshots, settings, versions,
-- publications.
create or replace function pgq._server_findings(snapshot_age interval)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        -- A transaction that has an id holds back vacuum as a snapshot does.
        (select 'warning', null::text, 'long_transaction', a.xact_start,
                format('process %s (%s, %s) holds the oldest snapshot for %s, %s: %s', a.pid,
                       a.usename, nullif(a.application_name, ''),
                       pgq._span(clock_timestamp() - a.xact_start), a.state, left(a.query, 60)),
                format('select pg_terminate_backend(%s)', a.pid)
         from pg_stat_activity a
         where a.datname = current_database() and a.pid <> pg_backend_pid()
           and coalesce(a.backend_xmin, a.backend_xid) is not null
           and a.xact_start < clock_timestamp() - snapshot_age
         order by age(coalesce(a.backend_xmin, a.backend_xid)) desc, a.xact_start limit 3)
        union all
        select 'warning', null, 'prepared_transaction', p.prepared,
               format('prepared transaction %s (%s) holds back vacuum', p.gid, p.owner),
               format('rollback prepared %L', p.gid)
        from pg_prepared_xacts p
        where p.database = current_database() and p.prepared < clock_timestamp() - snapshot_age
        union all
        select 'warning', null, 'idle_slot', null,
               format('replication slot %s is unused and holds back vacuum', s.slot_name),
               format('select pg_drop_replication_slot(%L)', s.slot_name)
        from pg_replication_slots s
        where coalesce(s.xmin, s.catalog_xmin) is not null and not s.active
        union all
        select 'critical', null, 'autovacuum_off', null,
               format('setting %s is off: tables and indexes grow', s.name),
               format('alter system set %I = on; select pg_reload_conf()', s.name)
        from pg_settings s
        where s.name in ('autovacuum', 'track_counts') and s.setting = 'off'
        union all
        select 'critical', null, 'autovacuum_off', null,
               format('table %s: autovacuum is off for it', c.oid::regclass),
               format('alter table %s reset (autovacuum_enabled)', c.oid::regclass)
        from pg_class c
        where c.relnamespace = 'pgq'::regnamespace
          and exists (select from unnest(c.reloptions) o
                      where o ~* '^autovacuum_enabled=(f|n|0|of)')
        union all
        select 'critical', null, 'version', null,
               format('extension pgq: the catalog says %s, the code is %s', e.extversion,
                      pgq.version()), 'alter extension pgq update'
        from pg_extension e where e.extname = 'pgq' and e.extversion <> pgq.version()
        union all
        -- Without a replica identity UPDATE and DELETE fail as soon as the table is published.
        select 'critical', null, 'replica_identity', null,
               format('publication %s has table %s, which has no replica identity',
                      string_agg(distinct t.pubname, ', '), c.oid::regclass),
               format('alter table %s replica identity full', c.oid::regclass)
        from pg_publication_tables t
        join pg_publication p on p.pubname = t.pubname and (p.pubupdate or p.pubdelete)
        join pg_class c on c.relname = t.tablename and c.relnamespace = 'pgq'::regnamespace
        where t.schemaname = 'pgq'
          and (c.relreplident = 'n' or c.relreplident = 'd' and not exists (
              select from pg_index i where i.indrelid = c.oid and i.indisprimary))
        group by c.oid;
end
$$;
comment on function pgq._server_findings(interval) is 'Findings about the server.';

grant execute on function pgq._server_findings, pgq.version to pg_monitor;
