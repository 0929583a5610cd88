-- The relays of the queues that the current user may consume.
create or replace view pgq.relays with (security_barrier) as
select q.name as queue, r.relay, r.destination,
       s.owner is not null and s.until > pgq.now() as alive,
       r.circuit, r.changed_at, r.error, s.owner, s.batch
from pgq.relay r
join pgq._visible_queue q on q.queue_id = r.queue_id
left join pgq.stream s on s.queue_id = r.queue_id and s.consumer = r.relay;
comment on view pgq.relays is
    'The relays: the destination of each, whether it is running, and the state of its circuit '
    'breaker. pgq.relay_report(queue, relay) removes the record of a relay that is gone for good.';
comment on column pgq.relays.alive is
    'False: the relay has not renewed its stream in time, or it has ended without removing its '
    'record.';
comment on column pgq.relays.changed_at is 'When the circuit breaker got its current state.';
comment on column pgq.relays.owner is 'The process that runs the relay.';
comment on column pgq.relays.batch is 'The last batch that the relay has finished.';
revoke all on table pgq.relays from public;
