-- The last hours of each queue, minute by minute.
create or replace view pgq.queue_traffic with (security_barrier) as
select q.name as queue, t.minute,
       coalesce(sum(t.size) filter (where t.event = 'in'), 0)::bigint as received,
       case when r.journal = 'all' then
           coalesce(sum(t.size) filter (where t.event = 'ack'), 0)::bigint end as acked,
       coalesce(sum(t.size) filter (where t.event in ('nack', 'bury', 'timeout')), 0)::bigint
           as failed,
       (sum(t.size) filter (where t.event = 'ready'))::bigint as ready,
       (sum(t.size) filter (where t.event = 'dead'))::bigint as dead
from pgq.traffic t
join pgq._visible_queue q on q.queue_id = t.queue_id
join pgq.queue r on r.queue_id = t.queue_id
group by q.name, t.minute, r.journal;
comment on view pgq.queue_traffic is
    'The traffic of each queue in each minute of the last 12 hours, as counted by maintain(): '
    'messages received, acknowledged and failed, and how many were ready and dead at the last '
    'count of the minute. A minute without events and without a count has no row.';
comment on column pgq.queue_traffic.acked is
    'Null: the audit log of the queue records failures only.';
comment on column pgq.queue_traffic.ready is 'Null: there was no count in that minute.';
comment on column pgq.queue_traffic.dead is 'Null: there was no count in that minute.';
revoke all on table pgq.queue_traffic from public;
