-- Findings about filters that match nothing, full lanes, relays and schedules.
create or replace function pgq._usage_findings(queues int[], now timestamptz)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select 'warning', q.name, 'filter_matches_nothing', f.created_at,
               case when sum(h.tested) = 0 then format(
                   'claims with the filter %s find no lane that can match, and messages wait',
                   left(f.document::text, 100))
                   else format('claims with the filter %s tested %s messages, and none matched',
                               left(f.document::text, 100), pgq._number(sum(h.tested))) end,
               format('select * from pgq.explain_filter(%L, %L)', q.name, f.document)
        from pgq.filter_hit h
        join pgq.filter f on f.filter_id = h.filter_id
        join pgq.queue q on q.queue_id = h.queue_id
        where queues is null or q.queue_id = any (queues)
        group by q.queue_id, f.filter_id
        having sum(h.matched) = 0
           -- Claims that the lanes rule out are recorded at most every five minutes, also while
           -- nothing waits. One value of a hashed key may have no message: that is no finding.
           and (sum(h.tested) >= 100 or sum(h.tested) = 0 and sum(h.claims) >= 3
               and f.lane_hashes is null and exists (
               select from pgq._queue_stats() s
               where s.queue = q.name and s.oldest_age > interval '1 min'))
           and max(h.used_at) > _usage_findings.now - interval '15 min'
        union all
        select 'warning', q.name, 'lanes', null,
               format('%s have more than %s combinations of values: others share a lane',
                      array_to_string(array(
                          select k from unnest(q.lane_keys) k where k not like '#%'), ', '),
                      pgq._limit('lanes')),
               format('select pgq.alter_queue(%L, lane_keys => ''{...}'') -- one key may have any '
                      'number of values, the others few', q.name)
        from pgq.queue q
        where (queues is null or q.queue_id = any (queues)) and q.lanes_full
        union all
        select 'critical', q.name, 'relay_silent', nullif(s.until, 'infinity'),
               format('relay %s to %s has sent no heartbeat lately', r.relay, r.destination),
               format('-- start it again, or remove its record: '
                      'select pgq.relay_report(%L, %L)', q.name, r.relay)
        from pgq.relay r join pgq.queue q on q.queue_id = r.queue_id
        left join pgq.stream s on s.queue_id = r.queue_id and s.consumer = r.relay
        where (queues is null or q.queue_id = any (queues))
          and (s.owner is not null and s.until > _usage_findings.now) is not true
        union all
        select 'warning', q.name, 'relay_fails', r.changed_at,
               format('relay %s: %s fails: %s', r.relay, r.destination, left(r.error, 200)),
               '-- its messages wait; the relay continues when the destination answers'
        from pgq.relay r join pgq.queue q on q.queue_id = r.queue_id
        join pgq.stream s on s.queue_id = r.queue_id and s.consumer = r.relay
        where (queues is null or q.queue_id = any (queues))
          and s.owner is not null and s.until > _usage_findings.now and r.circuit <> 'closed';
    if queues is null then
        return query
            select case when s.error is not null then 'critical' else 'warning' end, null::text,
                   case when s.error is not null then 'schedule_fails' else 'schedule_missed' end,
                   s.next_at,
                   case when s.error is not null
                        then format('schedule %s of topic %s fails: %s', s.name, s.topic, s.error)
                        else format('schedule %s of topic %s is %s late', s.name, s.topic,
                                    pgq._span(_usage_findings.now - s.next_at)) end,
                   case when s.error is not null then format(
                       'select * from pgq.schedules where name = %L', s.name)
                        else 'call pgq.maintain()' end
            from pgq.schedule s
            where s.error is not null or s.next_at < _usage_findings.now
                - pgq._limit('schedule_late_seconds') * interval '1 s';
    end if;
end
$$;
comment on function pgq._usage_findings(int[], timestamptz) is
    'Findings about filters that match nothing, full lanes, relays and schedules.';
