-- Who holds which messages: the list from which an operator breaks a lease.
create or replace view pgq.leases as
select l.lease_id, q.name as queue, l.key, sum(l.size) as size, max(l.attempt) as attempt,
       min(l.claimed_at) as claimed_at, pgq.now() - min(l.claimed_at) as age,
       nullif(min(l.until), 'infinity') as until, l.holder, l.client
from pgq.lease l
join pgq.queue q on q.queue_id = l.queue_id
group by l.lease_id, q.name, l.key, l.holder, l.client;
comment on view pgq.leases is
    'Every lease: who holds how many messages of which queue, since when and until when. '
    'pgq.release(lease_id) breaks a lease, so that others can claim its messages.';
comment on column pgq.leases.key is 'The name of a named claim; null: none.';
comment on column pgq.leases.until is
    'Null: the lease never expires. Watch the age of such leases: their consumer may have '
    'crashed.';
comment on column pgq.leases.holder is 'application_name of the claiming session.';
revoke all on table pgq.leases from public;
