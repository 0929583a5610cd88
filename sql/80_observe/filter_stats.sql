-- Statistics of filters.
create or replace view pgq.filter_stats with (security_barrier) as
select q.name as queue, f.document as filter, sum(h.claims)::bigint as claims,
       sum(h.tested)::bigint as tested, sum(h.matched)::bigint as matched,
       max(h.last_at) as last_match_at
from pgq.filter_hit h
join pgq.filter f on f.filter_id = h.filter_id
join pgq._visible_queue q on q.queue_id = h.queue_id
group by q.name, f.document;
comment on view pgq.filter_stats is
    'Filters that claims have used: how often, and how many messages they tested and matched.';
comment on column pgq.filter_stats.claims is
    'Claims that tested or found messages. If no lane can match, at most one claim in five '
    'minutes is counted.';
revoke all on table pgq.filter_stats from public;
