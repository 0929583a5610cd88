-- Which queue is subscribed to which topics, and how often the subscription matched.
create or replace view pgq.subscription with (security_barrier) as
select q.name as subscriber, b.pattern, b.filter, b.created_at,
       coalesce(h.matches, 0)::bigint as match_count, h.last_at as last_matched_at
from pgq.binding b
join pgq._visible_queue q on q.queue_id = b.queue_id
left join (
    select x.binding_id, sum(x.matches) as matches, max(x.last_at) as last_at
    from pgq.binding_hit x group by x.binding_id
) h on h.binding_id = b.binding_id
where b.counted;
comment on view pgq.subscription is
    'Which queue is subscribed to which topics, since when, and how often the subscription '
    'matched. A queue''s own topic is not '
    'a subscription.';
revoke all on table pgq.subscription from public;
