-- Claims that are held by name: hold, named_lease, parts of a lease, backlog, peek_slice.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', lease => '30 s');
insert into pgq.message (topic, headers, payload)
select 'work', jsonb_build_object('type', case when i % 3 = 0 then 'a' else 'b' end), to_jsonb(i)
from generate_series(1, 1000) i;

-- hold
select is(pgq.backlog('work'), 1000::bigint, 'the backlog is counted');
select throws_ok($$select pgq.hold('work', null)$$, '22023', null, 'a held claim needs a name');
select throws_ok($$select pgq.hold('work', '')$$, '22023', null,
    'a held claim needs a name that is not empty');
select throws_ok($$select pgq.hold('nowhere', 'k')$$, 'QU001', null,
    'a held claim needs a queue that exists');
select is_empty($$select from pgq.hold('work', 'none', '{"type": "c"}', 10)$$,
    'hold returns nothing if no message matches');
create temp table held as select * from pgq.hold('work', 'job', n => 700);
select results_eq('select size, lease_until from held', 'values (700::bigint, null::timestamptz)',
    'hold leases messages without an end by default');
select is(pgq.backlog('work'), 300::bigint, 'held messages are not in the backlog');
select results_eq($$select lease_id, size from pgq.hold('work', 'job', n => 5)$$,
    'select lease_id, size from held', 'hold with the same name returns the same lease');
select is((select count(*) from pgq.claim('work', n => 5, key => 'job')), 700::bigint,
    'a claim with that name returns all held messages');
select is((select array_agg(distinct lease_until) from pgq.claim('work', key => 'job')),
    '{null}'::timestamptz[], 'the claim shows that the lease has no end');
select t.advance('20 years');
call pgq.maintain();
select is((select sum(size) from pgq.lease), 700::bigint,
    'a lease without an end is never taken back');
select is(pgq.named_lease('work', 'job'), (select lease_id from held),
    'named_lease returns the lease id that belongs to a name');
select is((select min(until) from pgq.message_state where state = 'leased'), null,
    'message_state shows no end for held messages');
select matches((select note from pgq.history((select min(id) from pgq.message))
                where event = 'claim'), 'without end',
    'the history of a held message says that the lease has no end');
select isnt(pgq.wait_begin('work', 'w', '10 s'), null,
    'a lease without an end does not keep a consumer from waiting');
select pgq.wait_begin('work', 'w', '10 s');
select is(pgq.wait_begin('work', 'w', '10 s') <= interval '10 s', true,
    'a lease without an end does not prolong the wait');

-- parts
create temp table part as
select n, p.* from held, unnest('{1,3,7,700,9999}'::int[]) n,
    lateral pgq.lease_parts(held.lease_id, n) p;
select results_eq(
    'select n, count(*)::int, sum(size)::int, max(size) - min(size) <= 1 from part group by n
     order by n',
    $$values (1, 1, 700, true), (3, 3, 700, true), (7, 7, 700, true), (700, 700, 700, true),
             (9999, 700, 700, true)$$,
    'a lease is divided into parts of equal size, whatever their number');
select results_eq('select distinct attempt, grouped from part', 'values (1, false)',
    'all parts are first attempts, and none has a group');
savepoint groups;
update pgq.lease set grouped = true where lease_id = (select lease_id from held);
select set_eq('select problem from pgq.check()',
    array['the group flag of a lease is wrong'],
    'pgq.check() finds a lease with a wrong group flag');
rollback to groups;
select is_empty(
    $$select p.* from part p, held
      where p.n < 10 and p.size <> (
          select count(*) from pgq.leased_message m
          where m.lease_id = held.lease_id and m.id >= p.low and m.id < p.high
            and m.range_low < p.high and m.range_high > p.low)$$,
    'a part has as many messages as its size says');
select results_eq(
    $$select lease_id, id, topic, priority, attempt, headers, payload, sender, recipient, reply_to,
             correlation_id, group_key, published_at, expires_at, lease_until
      from pgq.leased_message where lease_id = (select lease_id from held) order by id$$,
    'select * from pgq.leased((select lease_id from held)) order by id',
    'the view leased_message shows the same messages as pgq.leased');
select throws_ok('select pgq.lease_parts(1)', 'QU003', null,
    'lease_parts of an unknown lease is an error');
select throws_ok('select pgq.lease_parts(1, 0)', '22023', null,
    'a lease cannot be divided into 0 parts');

create temp table second as
select m.id from (select * from part where n = 3 order by low limit 1 offset 1) p, held,
    pgq.leased_message m
where m.lease_id = held.lease_id and m.id >= p.low and m.id < p.high;
select is(pgq.ack(pgq.named_lease('work', 'job'), array(
              select id from pgq.leased((select lease_id from held))
              where id < (select min(id) from second))), 233,
    'some messages of a named lease are acknowledged');
select is((select count(*) from pgq.leased((select lease_id from held))), 467::bigint,
    'the other messages stay leased');
select throws_ok('select pgq.leased(1)', 'QU003', null,
    'pgq.leased of an unknown lease is an error');

-- nack, extend and release of a named lease
select is(pgq.nack(pgq.named_lease('work', 'job'), array(select id from second), delay => '0'),
    (select count(*)::int from second), 'some messages of a named lease are nacked');
select is(pgq.extend(pgq.named_lease('work', 'job')), null,
    'extend does not give an end to a lease without one');
select is((select until from pgq.leases where key = 'job'), null,
    'the view pgq.leases shows no end for that lease');
select cmp_ok(pgq.release(pgq.named_lease('work', 'job')), '>', 0,
    'an operator can release a held lease');
select throws_ok($$select pgq.named_lease('work', 'job')$$, 'QU003', null,
    'a released lease cannot be found by its name');
select throws_ok($$select pgq.named_lease('work', null)$$, 'QU003', null,
    'named_lease of null is an error');
select throws_ok($$select pgq.named_lease('nowhere', 'job')$$, 'QU001', null,
    'named_lease of an unknown queue is an error');

-- with an end
select is((select lease_until from pgq.hold('work', 'short', n => 5, lease => '1 min')),
    pgq.now() + interval '1 min', 'a held claim can have an end');
select is((select lease_until from pgq.hold('work', 'short', lease => '2 min')),
    pgq.now() + interval '2 min', 'the next hold with the same name moves that end');
select is((select count(*) from pgq.claim('work', n => 2)), 2::bigint,
    'a claim without a name takes two other messages');
select t.advance('3 min');
select pgq.claim('work', '{"type": "c"}');
select isnt((select lease_id from pgq.hold('work', 'short', n => 3)), null,
    'a name can be used again after its lease has ended');
select is((select sum(size) from pgq.lease where key = 'short'), 1::bigint,
    'messages that timed out together are delivered in smaller sets');

-- peek_slice
select is(
    (select array_agg(p.id order by p.id) from generate_series(0, 2) s
     cross join lateral pgq.peek_slice('work', '{"type": "a"}', s, 3) p),
    (select array_agg(id order by id) from pgq.peek('work', '{"type": "a"}', 1000)),
    'the slices of peek_slice together are all messages that peek shows');
select is((select count(*) from pgq.peek_slice('work')), pgq.backlog('work'),
    'peek_slice without a filter shows the whole backlog');
select throws_ok($$select pgq.peek_slice('work', null, 3, 3)$$, '22023', null,
    'slices are numbered from 0: there is no slice 3 of 3');
select throws_ok($$select pgq.peek_slice('work', '{"a": {"$what": 1}}')$$, 'QU004', null,
    'a bad filter is refused');

-- the log
select results_eq('select low, high, publishers from pgq.log_range()',
    $$select min(id), max(id), '{}'::text[] from pgq.message$$,
    'log_range shows the first and the last id of the log, and that nobody is publishing');
select results_eq('select low from pgq.log_range(slot => 2)', 'values (null::bigint)',
    'an empty slot of the log has no first id');
select is((select count(*) from pgq.read_log(0, 1000000000)), 1000::bigint,
    'read_log returns all messages, whoever holds them');
select results_eq(
    $$select id, attempt from pgq.read_log((select min(id) + 10 from pgq.message),
        (select min(id) + 20 from pgq.message), 'work', '{"type": "a"}', 0) order by 1$$,
    $$select id, 0 from pgq.message where id - (select min(id) from pgq.message) between 10 and 19
      and headers ->> 'type' = 'a' order by 1$$,
    'read_log returns the messages of an id range that match');
select is_empty($$select from pgq.read_log(0, 1000000000, 'other')$$,
    'read_log returns nothing for another topic');
select is_empty($$select from pgq.read_log(0, 1000000000, slot => 2)$$,
    'read_log returns nothing for an empty slot');

-- leases
select results_eq(
    $$select queue, key, size::int, attempt, until, claimed_at, age from pgq.leases
      where key is not null$$,
    $$values ('work', 'short', 1, 3, null::timestamptz, pgq.now(), interval '0')$$,
    'pgq.leases shows the name, the size and the age of a lease');
select pgq.release(lease_id) from pgq.leases;
select is_empty('select from pgq.leases', 'an operator can release all leases');
select is_empty($$select * from pgq.check()$$, 'nothing is broken');

-- check
create temp table two as
select lease_id from pgq.hold('work', 'x', n => 2);
insert into pgq.lease (lease_id, claimed_at, until, queue_id, part, attempt, size, grouped,
                       journal, key, ids)
select lease_id + 1, claimed_at, until, queue_id, 2, attempt, 0, grouped, journal, key, '{}'
from pgq.lease where key = 'x';
select is((select count(*) from pgq.check() where problem = 'a name belongs to two claims'),
    1::bigint, 'pgq.check() finds two claims with the same name');
select * from finish();
rollback;
