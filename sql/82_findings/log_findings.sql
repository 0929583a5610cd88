-- Maintenance that does not happen, and a log that is not rotated.
create or replace function pgq._log_findings(now timestamptz) returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_retention interval := pgq._log_retention();
    v_longest interval := v_retention + greatest(v_retention / 10, interval '10 min');
    v_oldest timestamptz := (
        select m.published_at from pgq.message m order by m.id limit 1);
begin
    return query
        select case when m.last_at is null then 'critical' else 'warning' end, null::text,
               case when m.last_at is null then 'maintain_never' else 'maintain_late' end,
               coalesce(m.last_at, v_oldest),
               case when m.last_at is null then 'pgq.maintain() was never called: the log grows'
                    else format('pgq.maintain() was last called %s ago: the log grows',
                                pgq._span(_log_findings.now - m.last_at)) end,
               'call pgq.maintain() -- about every minute, by a consumer, pg_cron or pgq maintain'
        from pgq.maintenance m
        where coalesce(m.last_at, v_oldest) < _log_findings.now - interval '15 min';
    return query
        select 'warning', null::text, 'rotation_overdue', x.since,
               format('era %s %s: the log grows', x.number, x.text),
               'call pgq.maintain() -- a long transaction that reads the log is in the way, if not'
        from (
            select e.number, e.started_at + v_retention as since,
                   format('began at %s and should have ended', date_trunc('second', e.started_at))
                       as text
            from pgq.era e
            where e.number = pg_sequence_last_value('pgq.era_number')
              and e.started_at + v_longest < _log_findings.now
              and pg_relation_size(format('pgq.message_%s', e.slot)::regclass) > 0
            union all
            select e.number, n.started_at + v_retention,
                   format('ended at %s, and its messages are still there',
                          date_trunc('second', n.started_at))
            from pgq.era e join pgq.era n on n.number = e.number + 1
            where e.emptied_at is null and n.started_at + v_longest < _log_findings.now
              and (e.archived_at is not null or not exists (
                  select from pgq.archive a
                  where n.started_at + v_longest + a.wait > _log_findings.now))
        ) x;
end
$$;
comment on function pgq._log_findings(timestamptz) is
    'Maintenance that does not happen, and a log that is not rotated.';
