-- Limits: messages in flight and rates, for queues and for lanes; and fair turns of lanes.
begin;
select no_plan();
select t.at('2030-01-01 00:00Z');

create function t.fill(queue text, tenant text, n int) returns void language plpgsql as $$
begin
    perform pgq.publish_batch(queue,
        array(select to_jsonb(tenant || i) from generate_series(1, n) i),
        array(select jsonb_build_object('tenant', tenant, 'name', tenant || i)
              from generate_series(1, n) i));
end
$$;
-- Claims, and returns how many messages of each tenant were delivered.
create function t.tenants(queue text, n int, filter jsonb default null) returns text
language plpgsql as $$
declare
    v_tenants text;
    v_lease bigint;
begin
    select string_agg(tenant || count, ' ' order by tenant), max(lease_id) into v_tenants, v_lease
    from (select headers ->> 'tenant' as tenant, count(*), max(lease_id) as lease_id
          from pgq.claim(queue, filter, n) group by 1) c;
    perform set_config('t.lease', v_lease::text, false);
    return v_tenants;
end
$$;
create function t.lease() returns bigint language sql as $$
    select current_setting('t.lease')::bigint $$;

-- max_leased: messages in flight
select pgq.create_queue('few', max_leased => 5, lease => '10 s', max_attempts => 9);
select count(*) from pgq.publish_batch(
    'few', array(select to_jsonb(i) from generate_series(1, 100) i));
select is(t.take('few', n => 3), '1 2 3', 'a claim below max_leased takes all that it asks for');
select is(t.take('few', n => 3), '4 5', 'a claim takes no more than max_leased allows');
select is(t.take('few', n => 3), null, 'a claim returns nothing when max_leased is reached');
select is(pgq.ack((select min(lease_id) from pgq.lease), array[(select min(id) from pgq.message)]),
    1, 'one message is acknowledged');
select is(t.take('few', n => 3), '6', 'an acknowledged message makes room for one more');
select is(t.take('few', '{"msg.id": {"$gt": 0}}', 3), null,
    'a claim with a filter respects max_leased');
select pgq.bury((select lease_id from pgq.lease order by claimed_at, lease_id limit 1));
select is(t.take('few', '{"msg.id": {"$gt": 0}}', 9), '7 8', 'buried messages make room');
select t.advance('11 s');
select is((select count(*) from pgq.claim('few', n => 99)), 1::bigint,
    'an expired lease makes room, and its messages are redelivered alone');
select is((select sum(size) from pgq.lease where flow = 0), 1::bigint,
    'the limit counts one message in flight');
select pgq.release(lease_id) from pgq.lease;
select pgq.nack(lease_id, delay => '1 h') from (select distinct lease_id from pgq.claim('few')) c;
select is((select count(*) from pgq.claim('few', n => 99, key => 'k')), 1::bigint,
    'a named claim works in a queue with max_leased');
select pgq.alter_queue('few', max_leased => 0);
select is((select limited from pgq.queue where name = 'few'), false, 'the limit can be removed');
select is((select count(*) from pgq.queue_limit), 0::bigint,
    'a queue without limits has no row in queue_limit');
select cmp_ok(
    (select count(*) from generate_series(1, 9) cross join lateral pgq.claim('few', n => 99)),
    '>', 8::bigint, 'more messages can be claimed without the limit');

-- rate
select pgq.create_queue('slow', rate => '10/s', burst => 4, lease => '1 h');
select count(*) from pgq.publish_batch(
    'slow', array(select to_jsonb(i) from generate_series(1, 100) i));
select is(t.take('slow', n => 99), '1 2 3 4', 'the first claim takes the burst');
select is(t.take('slow', n => 99), null, 'the next claim returns nothing');
select t.advance('99 ms');
select is(t.take('slow', n => 99), null, 'a claim before the next token returns nothing');
select t.advance('1 ms');
select is(t.take('slow', n => 99), '5', 'one token allows one message');
select t.advance('250 ms');
select is(t.take('slow', n => 1), '6', 'tokens accumulate between claims');
select is(t.take('slow', n => 9), '7', 'a claim takes no more messages than there are tokens');
select t.advance('1 min');
select is(t.take('slow', n => 99), '8 9 10 11', 'tokens accumulate only up to the burst');
select pgq.alter_queue('slow', rate => '1000/s', burst => 50);
select t.advance('1 s');
select is((select count(*) from pgq.claim('slow', n => 99)), 50::bigint,
    'a changed rate applies from the next claim on');
select cmp_ok(
    (select count(*) from pgq.flow f join pgq.queue q using (queue_id) where q.name = 'slow'), '<=',
    32::bigint, 'the bucket of a queue has at most 32 rows');
select pgq.create_queue('default_burst', rate => '500/min');
select count(*) from pgq.publish_batch(
    'default_burst', array(select to_jsonb(i) from generate_series(1, 100) i));
select is((select count(*) from pgq.claim('default_burst', n => 99)), 50::bigint,
    'the default burst is a tenth of the rate');

-- consumers that sleep
create function t.wait(queue text, waiter text) returns interval language plpgsql as $$
begin
    perform pgq.wait_begin(queue, waiter, '30 s');
    update pgq.waiter set armed = true;
    return pgq.wait_begin(queue, waiter, '30 s');
end
$$;
select pgq.create_queue('tokens', rate => '500/min', burst => 9);
select count(*) from pgq.publish_batch(
    'tokens', array(select to_jsonb(i) from generate_series(1, 100) i));
select is((select count(*) from pgq.claim('tokens', n => 99)), 9::bigint,
    'the first claim takes the burst');
select is(t.wait('tokens', 'a'), '120 ms', 'a consumer sleeps until the next token');
select is(t.wait('tokens', 'b'), '240 ms', 'a second consumer sleeps until the token after that');
select t.advance('120 ms');
select is((select count(*) from pgq.claim('tokens', n => 9)), 1::bigint,
    'the next token allows one message');
select t.advance('480 ms');
select is((select count(*) from pgq.claim('default_burst', n => 9)), 5::bigint,
    'a large bucket has shards, whose tokens are added up');
select count(*) from pgq.claim('slow', n => 99);
select is(t.wait('slow', 'a') >= '25 s', true,
    'a consumer of an empty queue does not wake up for tokens');

-- fair turns of lanes
select pgq.create_queue('fair', lane_keys => '{tenant}', fair => true, lease => '1 h');
select t.fill('fair', 'a', 1000);
select t.fill('fair', 'b', 10);
select is(t.tenants('fair', 10), 'a5 b5', 'one tenant does not keep the other waiting');
select is(t.tenants('fair', 10), 'a5 b5', 'both tenants share a claim while both have messages');
select is(t.tenants('fair', 10), 'a10', 'a tenant that is alone gets the whole claim');
select t.fill('fair', t, 100) from unnest('{c,d,e,f,g,h}'::text[]) t;
select is(
    (select max(n) - min(n) <= 1 from (
        select count(*) as n from generate_series(1, 70) cross join lateral pgq.claim('fair')
        group by headers ->> 'tenant') c), true,
    'claims of one message give each lane the same number of turns');
select is((select string_agg(c, ' ') from (
    select headers ->> 'tenant' as c from pgq.claim('fair', '{"tenant": "h"}', 3)) x), 'h h h',
    'a filter on lane keys takes messages of its lane');
select is((select count(*) from pgq.claim(
    'fair', '{"msg.id": {"$gt": 0}, "tenant": {"$in": ["c", "d"]}}', 8)), 8::bigint,
    'a filter on messages and lanes takes as many as it asks for');
select is((select count(*) from pgq.lease l join pgq.queue q using (queue_id)
           where q.name = 'fair' and flow is not null), 0::bigint,
    'a fair queue without limits does not count its leases');

-- fair turns with a filter: a match is found in any lane, behind messages that do not match
select pgq.create_queue('some', lane_keys => '{tenant}', fair => true, lease => '10 s',
                        max_attempts => 9, set_size => 1);
select t.fill('some', t, 3) from unnest('{a,b,c,d,e,f,g,h}'::text[]) t;
select is(t.take('some', '{"name": "f2"}'), 'f2', 'a match in one of many lanes is found');
select is(t.take('some', '{"name": "f2"}'), null, 'a second claim finds no other match');
select is((select count(*) from pgq.filter_scan join pgq.queue using (queue_id)
           where name = 'some'), 1::bigint, 'the scan cursor of the filter is stored');
select t.fill('some', 'd', 1);
select is(t.take('some', '{"name": "d1"}', 5), 'd1 d1',
    'a claim takes an old match and one that was published later');
select t.advance('11 s');
select is(t.take('some', '{"name": {"$in": ["f2", "h1"]}}', 5), 'f2',
    'a match whose lease expired is found behind other messages, and is delivered alone');
select is(t.take('some', '{"name": {"$in": ["f2", "h1"]}}', 5), 'h1',
    'the next claim takes the other match');
select pgq.create_queue('before');
select t.fill('before', 'a', 5);
select pgq.alter_queue('before', lane_keys => '{tenant}', fair => true);
select is(t.take('before', '{"name": "a3"}', 5), 'a3',
    'a match is found in messages from before the queue had lanes');
select is(t.take('before', n => 9), 'a1 a2 a4 a5', 'the rest of these messages can be claimed');

-- lane_max_leased: messages in flight per lane
select pgq.create_queue('lanes', lane_keys => '{tenant}', lane_max_leased => 3, lease => '10 s');
select t.fill('lanes', 'a', 50);
select t.fill('lanes', 'b', 2);
select t.fill('lanes', 'c', 50);
select is(t.tenants('lanes', 99), 'a3 b2 c3',
    'a claim takes messages of each lane up to its limit');
select t.lease() as first \gset
select is(t.tenants('lanes', 99), null,
    'a claim takes nothing from lanes that have reached their limit');
select pgq.ack(:first, (select array_agg(id) from (
    select id from pgq.leased(:first) where headers ->> 'tenant' = 'a' limit 2) x));
select is(t.tenants('lanes', 99), 'a2', 'an acknowledgement makes room in its own lane only');
select is(t.tenants('lanes', 99, '{"tenant": "c"}'), null,
    'a filter on the lane respects its limit');
select is(t.tenants('lanes', 99, '{"tenant": "c", "msg.id": {"$gt": 0}}'), null,
    'a filter on messages respects the limit of the lane');
delete from pgq.lane where label ->> 0 = 'b';
select t.fill('lanes', 'b', 9);
select is(t.tenants('lanes', 99), 'b1',
    'a lane that was removed and made again still counts its leases');
insert into pgq.lane (queue_id, lane_keys, label, document)
select queue_id, lane_keys, label, document from pgq.lane where label ->> 0 = 'c';
select is(t.tenants('lanes', 99), null, 'two lane rows with the same values count as one lane');
select t.advance('11 s');
select cmp_ok((select sum(size) from pgq.lease l join pgq.queue q using (queue_id)
               where q.name = 'lanes' and l.until <= pgq.now()), '>', 0::bigint,
    'expired leases are left before the next claims');
select t.tenants('lanes', 1) from generate_series(1, 50);
select is((select max(n) from (
    select sum(size) as n from pgq.lease l join pgq.queue q using (queue_id)
    where q.name = 'lanes' group by flow) x), 3::bigint,
    'the limit of a lane holds after leases have expired');
select pgq.alter_queue('lanes', lane_max_leased => 5, max_leased => 12);
select t.tenants('lanes', 99) from generate_series(1, 9);
select is((select sum(size) from pgq.lease l join pgq.queue q using (queue_id)
           where q.name = 'lanes'), 12::bigint,
    'the limit of the queue holds beside the limits of its lanes');

-- the common round over lanes that claims lock
select pgq.create_queue(q, lane_keys => '{tenant}', lane_max_leased => 99, lease => '1 h')
from unnest('{round,other}'::text[]) q;
select t.fill('round', t, 20) from unnest('{a,b,c,d,e}'::text[]) t;
select t.fill('other', t, 20) from unnest('{a,b,c,d,e}'::text[]) t;
create temporary table turn (i int generated always as identity, kind text, tenant text);
create function t.turn(queue text, kind text, filter jsonb default null) returns void
language sql as $$
    insert into turn (kind, tenant)
    select turn.kind, headers ->> 'tenant' from pgq.claim(turn.queue, turn.filter) $$;
select t.turn('round', 'alone') from generate_series(1, 10);
select t.turn('round', 'filter', '{"tenant": "a"}'), t.turn('round', 'between')
from generate_series(1, 10);
select t.turn('round', 'first'), t.turn('other', 'second') from generate_series(1, 10);
select is((select string_agg(format('%s %s', tenant, n), ', ' order by tenant)
           from (select tenant, count(*) as n from turn where kind = k group by 1) x),
    'a 2, b 2, c 2, d 2, e 2', d)
from (values
    ('alone', 'claims go round the lanes'),
    ('between', 'claims with a filter do not move the round'),
    ('first', 'lanes have equal turns while another queue is claimed from'),
    ('second', 'and so have those of the other queue')) v (k, d);
select is((select count(distinct pgq._turn(q.queue_id)) from pgq.queue q), 1::bigint,
    'the place of the round belongs to one queue at a time');

-- rates of lanes
select pgq.create_queue('lane_rate', lane_keys => '{tenant}', lane_rate => '2/s', lane_burst => 2,
    lease => '1 h');
select t.fill('lane_rate', 'a', 50);
select t.fill('lane_rate', 'b', 1);
select is(t.tenants('lane_rate', 99), 'a2 b1', 'each lane has its own burst');
select is(t.tenants('lane_rate', 99), null, 'a claim takes nothing from lanes without tokens');
select is(t.wait('lane_rate', 'a'), '500 ms', 'a consumer sleeps until the next token of a lane');
select t.advance('500 ms');
select is(t.tenants('lane_rate', 99), 'a1', 'the next token of a lane allows one message');

-- rows from before the queue had lanes
select pgq.create_queue('late');
select t.fill('late', 'a', 9);
select pgq.alter_queue('late', lane_keys => '{tenant}', lane_max_leased => 2);
select is(t.tenants('late', 99), 'a2', 'messages that have no lane yet share one limit');
call pgq.maintain();
select is(t.tenants('late', 99), 'a2', 'maintenance gives them a lane, which has its own limit');

-- buckets of queues that are dropped
call pgq.maintain();
select t.advance('1 h');
select pgq.ack(lease_id) from (select distinct lease_id from pgq.lease where flow is not null) l;
select pgq.drop_queue(name, true) from pgq.queue;
select is((select count(*) from pgq.flow), 0::bigint, 'drop_queue removes the buckets of a queue');

-- policies
select ok(pgq.create_queue('p', lane_keys => '{tenant}', max_leased => 5, rate => '100/min',
    lane_rate => '5/2 s', fair => true), 'limits are part of the policy');
select ok(not pgq.create_queue('p', lane_keys => '{tenant}', max_leased => 5, rate => '100/min',
    lane_rate => '5/2 s', fair => true), 'creating the same queue again changes nothing');
select throws_ok(s, 'QU002', null, s) from unnest(array[
    $$select pgq.create_queue('p', lane_keys => '{tenant}')$$,
    $$select pgq.create_queue('p', lane_keys => '{tenant}', max_leased => 6, rate => '100/min',
        lane_rate => '5/2 s', fair => true)$$]) s;
select throws_ok(s, '22023', e, s) from (values
    ($$select pgq.create_queue('x', max_leased => -1)$$, 'a limit must not be negative'),
    ($$select pgq.create_queue('x', rate => 'often')$$, 'invalid rate "often"'),
    ($$select pgq.create_queue('x', rate => '0/s')$$, 'invalid rate "0/s"'),
    ($$select pgq.create_queue('x', rate => '5/0 s')$$, 'invalid rate "5/0 s"'),
    ($$select pgq.create_queue('x', rate => '5/fortnight')$$, 'invalid rate "5/fortnight"'),
    ($$select pgq.create_queue('x', burst => 5)$$, 'burst needs a rate'),
    ($$select pgq.create_queue('x', fair => true)$$,
     'fair and the limits of lanes need lane_keys'),
    ($$select pgq.create_queue('x', lane_rate => '5/s')$$,
     'fair and the limits of lanes need lane_keys'),
    ($$select pgq.alter_queue('p', lane_keys => '{}')$$,
     'fair and the limits of lanes need lane_keys')) r (s, e);
select is((select (max_leased, rate, burst, lane_max_leased, lane_rate, fair)::text
           from pgq.queue_limit), '(5,100/min,,,"5/2 s",t)',
    'refused changes leave the policy as it was');
select pgq.alter_queue('p', max_leased => 0, rate => '', lane_rate => '', fair => false);
select pgq.alter_queue('p', lane_keys => '{}');
select is((select count(*) from pgq.queue where limited), 0::bigint, 'all limits can be removed');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
