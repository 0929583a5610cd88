-- Reads sessions with the rights of the caller, who may see more of them than the owner.
create or replace function pgq.metrics()
returns table (name text, kind text, labels jsonb, value float8, help text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_now timestamptz := pgq.now();
begin
    return query
        with holder as materialized (
            -- What holds back vacuum in this database. A transaction with an id holds back the
            -- horizon as a snapshot does; so may a standby, through its walsender or its slot.
            select 'session' as kind, a.pid::text as name, a.usename::text as role,
                   a.application_name as application,
                   greatest(age(a.backend_xmin), age(a.backend_xid)) as transactions,
                   extract(epoch from v_now - a.xact_start)::float8 as seconds
            from pg_stat_activity a
            where (a.datname = current_database() or a.datid is null)
              and a.pid <> pg_backend_pid()
              and (a.backend_xmin is not null or a.backend_xid is not null)
              and a.backend_type is distinct from 'autovacuum worker'
            union all
            select 'prepared', p.gid, p.owner, null, age(p.transaction),
                   extract(epoch from v_now - p.prepared)
            from pg_prepared_xacts p where p.database = current_database()
            union all
            select 'slot', s.slot_name, null, null, age(s.xmin), null
            from pg_replication_slots s where s.xmin is not null
        ), value (name, labels, value) as (
            select m.name, m.labels, m.value from pgq._metrics() m
            union all
            select 'pgq_oldest_snapshot_transactions', jsonb_build_object('kind', k.kind),
                   coalesce(max(h.transactions), 0)
            from unnest(array['session', 'prepared', 'slot']) k (kind)
            left join holder h on h.kind = k.kind group by k.kind
            union all
            select 'pgq_oldest_snapshot_seconds', jsonb_build_object('kind', k.kind),
                   greatest(max(h.seconds), 0)
            from unnest(array['session', 'prepared']) k (kind)
            left join holder h on h.kind = k.kind group by k.kind
            union all
            (select 'pgq_snapshot_holder_seconds', jsonb_build_object(
                        'kind', h.kind, 'name', h.name, 'role', coalesce(h.role, ''),
                        'application', coalesce(h.application, '')), h.seconds
             from holder h where h.seconds >= 60 order by h.seconds desc limit 5)
            union all
            select 'pgq_findings', jsonb_build_object('queue', coalesce(f.queue, ''),
                       'finding', f.finding, 'severity', f.severity), count(*)
            from pgq.findings() f group by 2
            union all
            select 'pgq_hidden_snapshots', '{}', count(*)
            from holder h where h.kind = 'session' and h.seconds is null
        )
        select m.name, m.kind, v.labels, v.value, m.help
        from value v left join pgq._metric m on m.name = v.name
        order by m.name, v.labels::text;
end
$$;
comment on function pgq.metrics() is
    'Metrics for Prometheus and similar systems: a row for each value, with its name, kind (gauge '
    'or counter), labels and help text. It takes milliseconds, whatever the backlog, also on a '
    'standby. Covers the queues that the caller may consume; the owner and members of pg_monitor '
    'see all queues and the database.';

-- For pg_monitor, as PostgreSQL's own statistics are.
grant usage on schema pgq to pg_monitor;
grant select on pgq._metric to pg_monitor;
grant execute on function pgq.metrics, pgq._metrics, pgq.now to pg_monitor;
