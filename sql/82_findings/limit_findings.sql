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

-- A rate of twice as many messages.
create or replace function pgq._doubled(rate text) returns text
language sql immutable parallel safe
return 2 * split_part(rate, '/', 1)::bigint || '/' || split_part(rate, '/', 2);
comment on function pgq._doubled(text) is 'A rate of twice as many messages.';

-- How many messages the rate of a queue lets through at this moment; null: it has none.
create or replace function pgq._queue_tokens(limits pgq.queue_limit, now timestamptz) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int := pgq._shards(limits);
begin
    if limits.step is null then
        return null;
    end if;
    return (
        select sum(pgq._tokens(
            (select max(f.full_at) from pgq.flow f
             where f.queue_id = limits.queue_id and f.lane = pgq._shard_lane(s)),
            limits.step * v_count,
            pgq._shard_burst(pgq._burst(limits.rate, limits.burst), v_count, s),
            _queue_tokens.now))
        from generate_series(0, v_count - 1) s);
end
$$;
comment on function pgq._queue_tokens(pgq.queue_limit, timestamptz) is
    'How many messages the rate of a queue lets through now.';

-- Lanes of a queue that have messages and are at their limit, and since when the first one waits.
create or replace function pgq._lanes_at_limit(limits pgq.queue_limit, now timestamptz)
returns table (lane text, since timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select pgq._lane_text(l), m.published_at
        from pgq.lane l
        cross join lateral (select pgq._lane_flow(l.label) as flow) c
        cross join lateral (
            select lower(r.ids) as id from pgq.ready r where r.lane_id = l.lane_id
            order by r.rank limit 1
        ) h
        join pgq.message m on m.id = h.id
        where l.queue_id = limits.queue_id
          and (limits.lane_max_leased <= (
                   select coalesce(sum(e.size), 0) from pgq.lease e
                   where e.queue_id = limits.queue_id and e.flow = c.flow)
               or 2 * pgq._tokens((
                   select max(f.full_at) from pgq.flow f
                   where f.queue_id = limits.queue_id and f.lane = c.flow), limits.lane_step,
                   pgq._burst(limits.lane_rate, limits.lane_burst), _lanes_at_limit.now)
                   < pgq._burst(limits.lane_rate, limits.lane_burst));
end
$$;
comment on function pgq._lanes_at_limit(pgq.queue_limit, timestamptz) is
    'Lanes of a queue that have messages and are at their limit.';
