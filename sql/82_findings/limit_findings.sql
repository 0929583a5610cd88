-- Limits that make messages wait for more than a minute. A bucket that is less than half full shows
-- that the rate is the cause, and not a lack of consumers.
create or replace function pgq._limit_findings(queues int[], now timestamptz)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with waiting as materialized (
            select q.queue_id, q.name, s.leased, l, _limit_findings.now - s.oldest_age as since,
                   format('%s wait, the oldest for %s', pgq._number(s.ready),
                          pgq._span(s.oldest_age)) as waits
            from pgq.queue_limit l join pgq.queue q on q.queue_id = l.queue_id
            join pgq._queue_stats() s on s.queue = q.name
            where (queues is null or q.queue_id = any (queues))
              and s.oldest_age > interval '1 min'
        )
        select 'warning', w.name, 'limit_reached', w.since,
               format('%s messages are leased, which is the limit: %s',
                      pgq._number((w.l).max_leased), w.waits),
               format('select pgq.alter_queue(%L, max_leased => %s)', w.name,
                      2 * (w.l).max_leased)
        from waiting w where w.leased >= (w.l).max_leased
        union all
        select 'warning', w.name, 'limit_reached', w.since,
               format('no more than %s may be claimed: %s', (w.l).rate, w.waits),
               format('select pgq.alter_queue(%L, rate => %L)', w.name,
                      pgq._doubled((w.l).rate))
        from waiting w
        where 2 * pgq._queue_tokens(w.l, _limit_findings.now)
            < pgq._burst((w.l).rate, (w.l).burst)
        union all
        select 'warning', w.name, 'limit_reached', min(x.since),
               format('%s lanes have reached their limit while messages wait: %s',
                      count(*), string_agg(coalesce(x.lane, 'others'), ', ' order by x.since)
                          filter (where x.i <= 3)),
               format('select pgq.alter_queue(%L, %s)', w.name, concat_ws(', ',
                      'lane_max_leased => ' || 2 * (w.l).lane_max_leased,
                      'lane_rate => ' || quote_literal(pgq._doubled((w.l).lane_rate))))
        from waiting w
        cross join lateral (
            select a.*, row_number() over (order by a.since) as i
            from pgq._lanes_at_limit(w.l, _limit_findings.now) a
            where a.since < _limit_findings.now - interval '1 min'
        ) x
        group by w.name, w.l;
end
$$;
comment on function pgq._limit_findings(int[], timestamptz) is
    'Limits that make messages wait.';
