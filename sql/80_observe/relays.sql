-- The relays of the queues that one may consume.
create or replace view pgq.relays with (security_barrier) as
select q.name as queue, r.relay, r.destination,
       s.owner is not null and s.until > pgq.now() as alive,
       r.circuit, r.changed_at, r.error, s.owner, s.batch
from pgq.relay r
join pgq._visible_queue q on q.queue_id = r.queue_id
left join pgq.stream s on s.queue_id = r.queue_id and s.consumer = r.relay;
comment on view pgq.relays is
    'The relays: where each forwards its queue to, whether it lives, and how its circuit breaker '
    'is. pgq.relay_report(queue, relay) has one forgotten that is not to come back.';
comment on column pgq.relays.alive is
    'False: not heard of for a while, and it has not said that it ends.';
comment on column pgq.relays.changed_at is 'Since when the circuit is what it is.';
comment on column pgq.relays.owner is 'The process that runs it.';
comment on column pgq.relays.batch is 'The last batch that it has finished.';
revoke all on table pgq.relays from public;
