-- Findings about failures: failed attempts, dead letters, expired leases.
create or replace function pgq._failure_findings(queues int[], now timestamptz)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select case when d.fresh > 0 then 'critical' else 'warning' end, q.name,
               case when d.fresh > 0 then 'dead_letters_rising' else 'dead_letters' end,
               case when d.fresh > 0 then d.first_fresh else d.first end,
               case when d.fresh > 0 then format(
                   '%s new dead letters within 15 min, %s in all', pgq._number(d.fresh),
                   pgq._number(d.size))
                   else format('%s dead letters, the last one %s ago', pgq._number(d.size),
                               pgq._span(_failure_findings.now - d.last)) end
               || coalesce('; the last error: ' || left(regexp_replace(rtrim(d.error, E'\n '),
                   E'Traceback [(]most recent call last[)]:.*\n', ''), 100), ''),
               format('select pgq.replay(%L) -- or pgq.discard', q.name)
        from pgq.queue q
        cross join lateral (
            select count(*) as size, min(l.failed_at) as first, max(l.failed_at) as last,
                   count(*) filter (
                       where l.failed_at > _failure_findings.now - interval '15 min') as fresh,
                   min(l.failed_at) filter (
                       where l.failed_at > _failure_findings.now - interval '15 min')
                       as first_fresh,
                   (select e.error from pgq.letter e where e.queue_id = q.queue_id
                    order by e.failed_at desc limit 1) as error
            from pgq.letter l where l.queue_id = q.queue_id
        ) d
        where (queues is null or q.queue_id = any (queues)) and d.size > 0;
    -- The share of attempts that failed; unknown where acknowledgements are not recorded.
    return query
        select case when r.failed >= 0.5 * (r.acked + r.failed) then 'critical' else 'warning' end,
               q.name, 'failing', null::timestamptz,
               format('%s %% of the attempts fail (%s a second)',
                      round((100 * r.failed / (r.acked + r.failed))::numeric),
                      round(r.failed::numeric, 2)),
               format('select at, error from pgq.journal where queue_id = %s and error is not null '
                      'order by at desc limit 10', q.queue_id)
        from pgq._rates() r join pgq.queue q on q.queue_id = r.queue_id
        where (queues is null or q.queue_id = any (queues))
          and r.failed > 0 and r.failed >= 0.1 * (r.acked + r.failed);
    return query
        select 'warning', q.name, 'leases_end', min(t.minute),
               format('%s messages were redelivered within 15 min: their lease of %s expired',
                      pgq._number(sum(t.size)), pgq._span(pgq._lease_span(q.lease))),
               format('select pgq.alter_queue(%L, lease => %L) -- or do workers die?', q.name,
                      4 * pgq._lease_span(q.lease))
        from (
            select x.queue_id, x.minute, x.size from pgq.queue p
            join pgq.traffic x on x.queue_id = p.queue_id and x.event = 'timeout'
                and x.minute > _failure_findings.now - interval '15 min'
            union all
            select u.queue_id, u.minute, u.size from pgq._uncounted(true) u
            where pgq._is_live() and u.event = 'timeout'
              and u.minute > _failure_findings.now - interval '15 min'
        ) t
        join pgq.queue q on q.queue_id = t.queue_id
        where queues is null or q.queue_id = any (queues)
        group by q.queue_id;
end
$$;
comment on function pgq._failure_findings(int[], timestamptz) is
    'Findings about failed attempts, dead letters and expired leases.';
