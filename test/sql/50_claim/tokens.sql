-- Tokens of leases are unique, even if their sequence starts again.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('a', lease => '1 h'), pgq.create_queue('b', lease => '1 h');
create function t.claim_again(queue text, lease interval) returns bigint language plpgsql as $$
declare
    v_lease_id bigint;
begin
    perform pgq.publish(queue, '1');
    perform setval('pgq.lease_id', 4711), setval('pgq.checked_lease_id', 6300000);
    select c.lease_id into v_lease_id from pgq.claim(queue, lease => claim_again.lease) c;
    return v_lease_id;
end $$;
create temp table token as
select q.queue, t.claim_again(q.queue, '1 h') as token
from unnest('{a,b,a,b}'::text[]) q (queue);
select is((select count(distinct token) from token), 4::bigint,
    'a token that is in use is not given again');
select cmp_ok((select max(token) from token), '<', 9007199254740992, 'tokens fit into a double');

-- leases without an end
create function t.hold_again(queue text, key text) returns bigint language plpgsql as $$
begin
    perform pgq.publish(queue, '1');
    perform setval('pgq.lease_id', 4711), setval('pgq.checked_lease_id', 6300000);
    return (select h.lease_id from pgq.hold(queue, key) h);
end $$;
create temp table held as
select t.hold_again(q.queue, 'k' || i) as token
from unnest('{a,b,a,b}'::text[]) with ordinality q (queue, i);
select is((select count(distinct token) from held), 4::bigint,
    'leases without an end have different tokens');
select is_empty('select from token join held using (token)',
    'leases with and without an end have different tokens');
select cmp_ok((select max(token) from held), '<', 9007199254740992,
    'tokens of leases without an end fit into a double');
select throws_ok($$insert into pgq.lease select * from pgq.lease limit 1$$, '23505', null,
    'a unique index rejects a duplicate lease row');
-- a long lease of several rows, and a short one of one row that ends in the same second
select pgq.create_queue('long', lease => '1 h'), pgq.create_queue('short', lease => '30 s');
select pgq.publish('long', '1');
select pgq.nack(lease_id, delay => '0') from pgq.claim('long');
select pgq.publish('long', '2');
select is(t.take('long', n => 2), '1 2', 'a claim takes a redelivery and a first delivery');
select lease_id as long_lease, lease_id & 8388607 as number from pgq.lease
where key is null order by claimed_at desc, lease_id desc limit 1 \gset
select count(*) from pgq.lease where lease_id = :long_lease \gset rows_
select is(:rows_count, 2, 'their lease has two rows');
select t.advance('59 min 30 s');
select pgq.publish('short', to_jsonb(i)) from generate_series(1, 3) i;
select is(t.take('short'), '1', 'the first claim takes the first message');
select setval('pgq.lease_id', least(:number - 1, 6291455));
select is(t.take('short'), '2', 'the next claim, on the fast path, gets its own message only');
select is_empty('select * from pgq.check()', 'no token belongs to two leases');

-- two leases of one row that end in the same second
select pgq.create_queue('five', lease => '5 min'), pgq.create_queue('half', lease => '30 s');
select count(*) from pgq.publish_batch('five', '{1,2,3,4,5,6}');
select is(t.take('five', n => 2), '1 2', 'the first claim of 5 min takes two messages');
select is(t.take('five', n => 2), '3 4',
    'the next claim of 5 min, on the fast path, takes two more');
select max(lease_id) & 8388607 as number from pgq.lease join pgq.queue using (queue_id)
where name = 'five' \gset
select t.advance('4 min 30 s');
select count(*) from pgq.publish_batch('half', '{1,2,3,4,5,6}');
select is(t.take('half', n => 2), '1 2', 'the first claim of 30 s takes two messages');
select setval('pgq.lease_id', least(:number - 1, 6291455));
select is(t.take('half', n => 2), '3 4',
    'the next claim of 30 s, on the fast path, takes two more');
select is_empty('select * from pgq.check()', 'no token belongs to two leases');
select t.advance('2 h');
select is((select count(*) from pgq.claim('a')), 1::bigint, 'leases with an end expire');
select is((select count(*) from pgq.lease where until = 'infinity'), 4::bigint,
    'leases without an end do not expire');

-- Beyond the seconds that a token can hold, leases still expire.
select t.at('2060-01-01 12:00Z');
select pgq.create_queue('late');
select count(*) from pgq.publish_batch('late', '{1,2}');
select is(t.take('late', n => 9), '1 2', 'a claim in 2060 takes two messages');
select is(t.take('late', n => 9), null, 'the claim in 2060 holds its messages');
select t.advance('1 min');
select is(t.take('late', n => 9), '1', 'the lease expires, and its messages are redelivered alone');
select is(t.take('late', n => 9), '2', 'the next claim takes the other message');
select is((select count(*) from pgq.lease where until = 'infinity'), 4::bigint,
    'leases without an end have not expired in 2060');
select * from finish();
rollback;
