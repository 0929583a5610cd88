-- The limits of the queues that the current user may consume, and their use. Calls no functions of
-- pgq but pgq.now(): in a view they would run with the rights of the current user.
create or replace view pgq.limits with (security_barrier) as
select q.name as queue, l.max_leased,
       case when num_nonnulls(l.max_leased, l.lane_max_leased) > 0 then (
           select coalesce(sum(e.size), 0) from pgq.lease e
           where e.queue_id = l.queue_id and e.flow is not null) end as leased,
       l.rate, b.burst,
       f.tokens,
       l.lane_max_leased, l.lane_rate, b.lane_burst, l.fair
from pgq.queue_limit l
join pgq._visible_queue q on q.queue_id = l.queue_id
cross join lateral (
    select case when l.rate is not null then
               coalesce(l.burst, greatest(1, split_part(l.rate, '/', 1)::int / 10)) end as burst,
           case when l.lane_rate is not null then
               coalesce(l.lane_burst, greatest(1, split_part(l.lane_rate, '/', 1)::int / 10))
           end as lane_burst
) b
-- The sum over the token buckets of the shards: see _shards, _tokens.
cross join lateral (
    select sum(floor(b.burst::bigint * (s + 1) / k.shards - b.burst::bigint * s / k.shards
                     - greatest(0, extract(epoch from m.full_at - pgq.now())::float8
                                   / (l.step * k.shards)) + 1e-6))::int as tokens
    from (select least(16, l.max_leased, greatest(1, b.burst / 10)) as shards) k
    cross join lateral generate_series(0, k.shards - 1) s
    cross join lateral (
        select max(f.full_at) as full_at from pgq.flow f
        where f.queue_id = l.queue_id and f.lane = 16 + s) m
    where l.step is not null
) f;
comment on view pgq.limits is 'The limits of queues, and how much of them is used.';
comment on column pgq.limits.leased is 'Messages that are leased now; null: not limited.';
comment on column pgq.limits.tokens is
    'How many messages the rate lets through at this moment; null: no rate.';
comment on column pgq.limits.fair is 'Claims take turns over the lanes; limits of lanes imply it.';
revoke all on table pgq.limits from public;
