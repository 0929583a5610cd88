-- The messages that are leased: what pgq.leased returns, for those who read a million. A function
-- would put all of them aside before it returns the first.
create or replace view pgq.leased_message with (security_barrier) as
select l.lease_id, m.id, m.topic, m.priority, l.attempt, m.headers, m.payload, m.sender,
       m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at, m.expires_at,
       nullif(l.until, 'infinity') as lease_until, lower(r) as range_low, upper(r) as range_high
from pgq.lease l
join pgq._visible_queue q on q.queue_id = l.queue_id
cross join lateral unnest(l.ids) r
join pgq.message m on m.id >= lower(r) and m.id < upper(r);
comment on view pgq.leased_message is
    'The messages of leases, to be read by lease_id and a range of ids; pgq.lease_parts tells the '
    'ranges. In no order.';
comment on column pgq.leased_message.range_low is
    'The message stands in the log among others of its lease: from this id';
comment on column pgq.leased_message.range_high is
    'to before this one. With conditions on both a reader passes over the other ranges.';
revoke all on table pgq.leased_message from public;
