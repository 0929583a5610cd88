-- Findings about the queues that the caller may consume, read with the rights of their owner. The
-- owner and members of pg_monitor get all findings.
create or replace function pgq._findings(role text, caller pgq.caller default current_user)
returns setof pgq._finding
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_queues int[] := case when not pg_has_role(caller, 'pg_monitor', 'usage')
        then pgq._visible_queues(caller) end;
begin
    return query select * from pgq._backlog_findings(v_queues, v_now);
    return query select * from pgq._failure_findings(v_queues, v_now);
    return query select * from pgq._lease_findings(v_queues, v_now);
    return query select * from pgq._usage_findings(v_queues, v_now);
    return query select * from pgq._limit_findings(v_queues, v_now);
    if v_queues is null then
        return query select * from pgq._log_findings(v_now);
        return query select * from pgq._grant_findings(role);
    end if;
end
$$;
comment on function pgq._findings(text, pgq.caller) is 'Findings about queues.';

create or replace function pgq.findings(
    snapshot_age interval default '5 min', role text default null
) returns table (severity text, queue text, finding text, since timestamptz, detail text, cure text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        select f.severity, f.queue, f.finding, f.since, f.detail, f.cure
        from (
            select * from pgq._findings(findings.role)
            union all
            select * from pgq._server_findings(coalesce(findings.snapshot_age, '5 min'))
        ) f
        order by f.severity, f.queue nulls last, f.finding, f.since;
end
$$;
comment on function pgq.findings(interval, text) is
    'Problems that need attention, the worst first: the finding (a name for programs), its detail '
    '(for people), the queue, since when it exists, and a statement that cures it. The command '
    'pgq doctor, the web page and alerts show this list. snapshot_age: the age from which a '
    'transaction counts as long-running. role: also checks whether this role may publish and '
    'consume. It takes milliseconds, whatever the backlog. Covers the queues that the caller may '
    'consume; the owner and members of pg_monitor see all queues and the database.';

grant execute on function pgq.findings, pgq._findings to pg_monitor;
