-- The leased messages, as pgq.leased returns them, for readers of a million. A function would store
-- all of them before it returns the first.
create or replace view pgq.leased_message with (security_barrier) as
select l.lease_id, m.id, m.topic, m.priority, l.attempt, m.headers, m.payload, m.sender,
       m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at, m.expires_at,
       nullif(l.until, 'infinity') as lease_until, lower(r) as range_low, upper(r) as range_high
from pgq.lease l
join pgq._visible_queue q on q.queue_id = l.queue_id
cross join lateral unnest(l.ids) r
join pgq.message m on m.id >= lower(r) and m.id < upper(r);
comment on view pgq.leased_message is
    'The messages of leases, in no particular order. Read them by lease_id and a range of ids '
    'from pgq.lease_parts.';
comment on column pgq.leased_message.range_low is
    'The first id of the contiguous range of ids of the lease that has the message.';
comment on column pgq.leased_message.range_high is
    'The id after the last id of that range. With conditions on both columns, a reader skips '
    'other ranges.';
revoke all on table pgq.leased_message from public;
