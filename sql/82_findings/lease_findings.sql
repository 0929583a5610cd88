-- Leases that are held for too long, that never end, or that nobody takes back.
create or replace function pgq._lease_findings(queues int[], now timestamptz)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with lease as (
            select l.lease_id, q.name, pgq._lease_span(q.lease) as lease, l.key, l.claimed_at,
                   l.until, sum(l.size) as size,
                   coalesce(nullif(l.holder, ''), host(l.client), 'an unnamed consumer') as who,
                   exists (select from pgq.stream s
                           where s.queue_id = l.queue_id and s.owner is not null
                             and s.until > _lease_findings.now
                             and starts_with(l.key, 'stream ' || s.consumer || ' ')) as streamed
            from pgq.lease l join pgq.queue q on q.queue_id = l.queue_id
            where (queues is null or q.queue_id = any (queues))
              and l.claimed_at < _lease_findings.now - interval '1 min'
            group by l.lease_id, q.name, q.lease, l.key, l.claimed_at, l.until, l.holder, l.client,
                     l.queue_id
        ), judged as (
            select l.*, case when l.until = 'infinity' then 'lease_endless'
                             when l.until < _lease_findings.now - interval '1 min'
                             then 'lease_expired'
                             else 'lease_long' end as finding
            from lease l
            where l.until = 'infinity' and not l.streamed
                  and l.claimed_at < _lease_findings.now - interval '1 h'
               or l.until < _lease_findings.now - interval '1 min'
               or l.until < 'infinity' and l.claimed_at < _lease_findings.now - 10 * l.lease
        )
        select 'warning', j.name, j.finding, min(j.claimed_at),
               case j.finding
                   when 'lease_endless' then format(
                       '%s holds %s messages in a lease that never expires, for %s', max(j.who),
                       pgq._number(sum(j.size)), pgq._span(_lease_findings.now - min(j.claimed_at)))
                   when 'lease_expired' then format(
                       '%s leases with %s messages have expired and are not taken back',
                       pgq._number(count(*)), pgq._number(sum(j.size)))
                   else format('%s holds %s messages for %s, many times the lease of %s',
                       max(j.who), pgq._number(sum(j.size)),
                       pgq._span(_lease_findings.now - min(j.claimed_at)),
                       pgq._span(max(j.lease))) end,
               case j.finding when 'lease_expired' then 'call pgq.maintain()'
                   else string_agg(format('select pgq.release(%s)', j.lease_id), '; ') end
        from judged j
        group by j.name, j.finding, case when j.finding <> 'lease_expired' then j.who end;
end
$$;
comment on function pgq._lease_findings(int[], timestamptz) is
    'Leases that are held for too long, that never expire, or that no claim takes back.';
