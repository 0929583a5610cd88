-- Findings about the backlogs of queues.
create or replace function pgq._backlog_findings(queues int[], now timestamptz)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with state as materialized (
            select q.*, s.ready, s.exact, s.leased, s.oldest_age as age,
                   s.published_per_second as received, s.acked_per_second as acked,
                   s.failed_per_second as failed, p.minute as before_at, p.size as before,
                   case when s.exact then '' else 'about ' end || pgq._number(s.ready)
                       || ' ready, the oldest for ' || pgq._span(s.oldest_age) as waits
            from pgq.queue q
            join pgq._queue_stats() s on s.queue = q.name
            left join lateral (
                select t.minute, t.size from pgq.traffic t
                where t.queue_id = q.queue_id and t.event = 'ready'
                  and t.minute between _backlog_findings.now - interval '15 min'
                                   and _backlog_findings.now - interval '2 min'
                order by t.minute limit 1
            ) p on true
            where (queues is null or q.queue_id = any (queues)) and q.mode = 'queue'
              and s.ready > 0
        ), judged as (
            select s.*,
                   case when s.paused then 'paused'
                        when s.age > interval '1 min' and s.leased = 0
                             and coalesce(s.acked + s.failed, s.failed, 0) = 0 then 'no_consumer'
                        when s.ready > s.before
                                 + greatest(50, s.before / case when s.exact then 5 else 2 end)
                             or s.before is null and s.ready >= 1000 and s.received > s.acked
                        then 'growing'
                        when s.age > interval '15 min' then 'late' end as finding
            from state s
        )
        select case when j.finding = 'no_consumer'
                         or j.finding = 'growing' and j.age > interval '15 min' then 'critical'
                    else 'warning' end,
               j.name, j.finding,
               case j.finding when 'growing' then j.before_at
                   else _backlog_findings.now - j.age end,
               case j.finding
                   when 'paused' then 'is paused with ' || j.waits
                   when 'no_consumer' then 'nobody consumes it: ' || j.waits
                   when 'growing' then format(
                       'grows: per second %s come and %s are done; %s',
                       round(j.received::numeric, 1),
                       coalesce(round(j.acked::numeric, 1)::text, '?'), j.waits)
                   else 'is late: ' || j.waits end,
               case j.finding when 'paused' then format('select pgq.resume(%L)', j.name)
                   else format('-- start consumers of %s, or more of them; or select pgq.purge(%L)',
                               j.name, j.name) end
        from judged j where j.finding is not null;
end
$$;
comment on function pgq._backlog_findings(int[], timestamptz) is
    'Findings about the backlogs of queues.';
