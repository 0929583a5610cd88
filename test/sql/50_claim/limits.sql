-- Limits: messages in flight, rates, the same for lanes, and turns.
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
-- Claims, and tells how many messages of each tenant came.
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

-- in flight
select pgq.create_queue('few', max_leased => 5, lease => '10 s', max_attempts => 9);
select count(*) from pgq.publish_batch(
    'few', array(select to_jsonb(i) from generate_series(1, 100) i));
select is(t.take('few', n => 3), '1 2 3', 'up to the limit');
select is(t.take('few', n => 3), '4 5', 'no more');
select is(t.take('few', n => 3), null, 'and then nothing');
select is(pgq.ack((select min(lease_id) from pgq.lease), array[(select min(id) from pgq.message)]),
    1, 'what is acknowledged');
select is(t.take('few', n => 3), '6', 'makes room, message by message');
select is(t.take('few', '{"msg.id": {"$gt": 0}}', 3), null, 'with a filter too');
select pgq.bury((select lease_id from pgq.lease order by claimed_at, lease_id limit 1));
select is(t.take('few', '{"msg.id": {"$gt": 0}}', 9), '7 8', 'so does what is buried');
select t.advance('11 s');
select is((select count(*) from pgq.claim('few', n => 99)), 1::bigint,
    'a lease that ends makes room; suspects come alone');
select is((select sum(size) from pgq.lease where flow = 0), 1::bigint, 'counted from the leases');
select pgq.release(lease_id) from pgq.lease;
select pgq.nack(lease_id, delay => '1 h') from (select distinct lease_id from pgq.claim('few')) c;
select is((select count(*) from pgq.claim('few', n => 99, key => 'k')), 1::bigint, 'named claims');
select pgq.alter_queue('few', max_leased => 0);
select is((select limited from pgq.queue where name = 'few'), false, 'the limit can be removed');
select is((select count(*) from pgq.queue_limit), 0::bigint, 'and leaves nothing behind');
select cmp_ok(
    (select count(*) from generate_series(1, 9) cross join lateral pgq.claim('few', n => 99)),
    '>', 8::bigint, 'more can be claimed');

-- rate
select pgq.create_queue('slow', rate => '10/s', burst => 4, lease => '1 h');
select count(*) from pgq.publish_batch(
    'slow', array(select to_jsonb(i) from generate_series(1, 100) i));
select is(t.take('slow', n => 99), '1 2 3 4', 'a burst');
select is(t.take('slow', n => 99), null, 'and then nothing');
select t.advance('99 ms');
select is(t.take('slow', n => 99), null, 'before the next token');
select t.advance('1 ms');
select is(t.take('slow', n => 99), '5', 'then one');
select t.advance('250 ms');
select is(t.take('slow', n => 1), '6', 'tokens add up');
select is(t.take('slow', n => 9), '7', 'as many as there are');
select t.advance('1 min');
select is(t.take('slow', n => 99), '8 9 10 11', 'up to the burst');
select pgq.alter_queue('slow', rate => '1000/s', burst => 50);
select t.advance('1 s');
select is((select count(*) from pgq.claim('slow', n => 99)), 50::bigint,
    'another rate counts from the next claim on');
select cmp_ok(
    (select count(*) from pgq.flow f join pgq.queue q using (queue_id) where q.name = 'slow'), '<=',
    32::bigint, 'one row remembers a bucket');
select pgq.create_queue('default_burst', rate => '500/min');
select count(*) from pgq.publish_batch(
    'default_burst', array(select to_jsonb(i) from generate_series(1, 100) i));
select is((select count(*) from pgq.claim('default_burst', n => 99)), 50::bigint,
    'a burst is a tenth unless said');

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
select is((select count(*) from pgq.claim('tokens', n => 99)), 9::bigint, 'the burst');
select is(t.wait('tokens', 'a'), '120 ms', 'who sleeps does until the next token');
select is(t.wait('tokens', 'b'), '240 ms', 'the second until the second');
select t.advance('120 ms');
select is((select count(*) from pgq.claim('tokens', n => 9)), 1::bigint, 'and finds it');
select t.advance('480 ms');
select is((select count(*) from pgq.claim('default_burst', n => 9)), 5::bigint,
    'a large bucket has shards, whose tokens come together');
select count(*) from pgq.claim('slow', n => 99);
select is(t.wait('slow', 'a') >= '25 s', true, 'without messages nobody waits for tokens');

-- turns
select pgq.create_queue('fair', lane_keys => '{tenant}', fair => true, lease => '1 h');
select t.fill('fair', 'a', 1000);
select t.fill('fair', 'b', 10);
select is(t.tenants('fair', 10), 'a5 b5', 'one tenant does not keep the other waiting');
select is(t.tenants('fair', 10), 'a5 b5', 'while both have messages');
select is(t.tenants('fair', 10), 'a10', 'alone it has everything');
select t.fill('fair', t, 100) from unnest('{c,d,e,f,g,h}'::text[]) t;
select is(
    (select max(n) - min(n) <= 1 from (
        select count(*) as n from generate_series(1, 70) cross join lateral pgq.claim('fair')
        group by headers ->> 'tenant') c), true, 'one by one each has its turn');
select is((select string_agg(c, ' ') from (
    select headers ->> 'tenant' as c from pgq.claim('fair', '{"tenant": "h"}', 3)) x), 'h h h',
    'a filter on lanes');
select is((select count(*) from pgq.claim(
    'fair', '{"msg.id": {"$gt": 0}, "tenant": {"$in": ["c", "d"]}}', 8)), 8::bigint,
    'a filter on messages');
select is((select count(*) from pgq.lease l join pgq.queue q using (queue_id)
           where q.name = 'fair' and flow is not null), 0::bigint, 'turns alone count nothing');

-- turns with a filter: the match is found, in whatever lane it is and behind whatever is there
select pgq.create_queue('some', lane_keys => '{tenant}', fair => true, lease => '10 s',
                        max_attempts => 9, set_size => 1);
select t.fill('some', t, 3) from unnest('{a,b,c,d,e,f,g,h}'::text[]) t;
select is(t.take('some', '{"name": "f2"}'), 'f2', 'a match in one of many lanes');
select is(t.take('some', '{"name": "f2"}'), null, 'and only there');
select is((select count(*) from pgq.filter_scan join pgq.queue using (queue_id)
           where name = 'some'), 1::bigint, 'which is noted');
select t.fill('some', 'd', 1);
select is(t.take('some', '{"name": "d1"}', 5), 'd1 d1', 'with what comes later');
select t.advance('11 s');
select is(t.take('some', '{"name": {"$in": ["f2", "h1"]}}', 5), 'f2',
    'what comes back suspect is found behind what does not match, and comes alone');
select is(t.take('some', '{"name": {"$in": ["f2", "h1"]}}', 5), 'h1', 'the rest afterwards');
select pgq.create_queue('before');
select t.fill('before', 'a', 5);
select pgq.alter_queue('before', lane_keys => '{tenant}', fair => true);
select is(t.take('before', '{"name": "a3"}', 5), 'a3', 'in what came before there were lanes');
select is(t.take('before', n => 9), 'a1 a2 a4 a5', 'of which the rest is left');

-- lanes
select pgq.create_queue('lanes', lane_keys => '{tenant}', lane_max_leased => 3, lease => '10 s');
select t.fill('lanes', 'a', 50);
select t.fill('lanes', 'b', 2);
select t.fill('lanes', 'c', 50);
select is(t.tenants('lanes', 99), 'a3 b2 c3', 'each lane up to its limit');
select t.lease() as first \gset
select is(t.tenants('lanes', 99), null, 'no more');
select pgq.ack(:first, (select array_agg(id) from (
    select id from pgq.leased(:first) where headers ->> 'tenant' = 'a' limit 2) x));
select is(t.tenants('lanes', 99), 'a2', 'room in one lane is for that lane');
select is(t.tenants('lanes', 99, '{"tenant": "c"}'), null, 'whoever asks');
select is(t.tenants('lanes', 99, '{"tenant": "c", "msg.id": {"$gt": 0}}'), null, 'and how');
delete from pgq.lane where label ->> 0 = 'b';
select t.fill('lanes', 'b', 9);
select is(t.tenants('lanes', 99), 'b1', 'a lane that was removed is counted still');
insert into pgq.lane (queue_id, lane_keys, label, document)
select queue_id, lane_keys, label, document from pgq.lane where label ->> 0 = 'c';
select is(t.tenants('lanes', 99), null, 'and a lane that was made twice, once');
select t.advance('11 s');
select is((select sum(size) > 0 from pgq.lease), true, 'leases end');
select t.tenants('lanes', 1) from generate_series(1, 50);
select is((select max(n) from (
    select sum(size) as n from pgq.lease l join pgq.queue q using (queue_id)
    where q.name = 'lanes' group by flow) x), 3::bigint, 'and the limit holds');
select pgq.alter_queue('lanes', lane_max_leased => 5, max_leased => 12);
select t.tenants('lanes', 99) from generate_series(1, 9);
select is((select sum(size) from pgq.lease l join pgq.queue q using (queue_id)
           where q.name = 'lanes'), 12::bigint, 'both limits hold');

-- rates of lanes
select pgq.create_queue('lane_rate', lane_keys => '{tenant}', lane_rate => '2/s', lane_burst => 2,
    lease => '1 h');
select t.fill('lane_rate', 'a', 50);
select t.fill('lane_rate', 'b', 1);
select is(t.tenants('lane_rate', 99), 'a2 b1', 'each lane at its rate');
select is(t.tenants('lane_rate', 99), null, 'no more');
select is(t.wait('lane_rate', 'a'), '500 ms', 'until the next token of some lane');
select t.advance('500 ms');
select is(t.tenants('lane_rate', 99), 'a1', 'which is there then');

-- rows from before the queue had lanes
select pgq.create_queue('late');
select t.fill('late', 'a', 9);
select pgq.alter_queue('late', lane_keys => '{tenant}', lane_max_leased => 2);
select is(t.tenants('late', 99), 'a2', 'messages that have no lane yet are one lane');
call pgq.maintain();
select is(t.tenants('late', 99), 'a2', 'until they have one');

-- lock rows that nobody needs
call pgq.maintain();
select t.advance('1 h');
select pgq.ack(lease_id) from (select distinct lease_id from pgq.lease where flow is not null) l;
select pgq.drop_queue(name, true) from pgq.queue;
select is((select count(*) from pgq.flow), 0::bigint, 'a queue takes its buckets with it');

-- policies
select ok(pgq.create_queue('p', lane_keys => '{tenant}', max_leased => 5, rate => '100/min',
    lane_rate => '5/2 s', fair => true), 'limits are part of the policy');
select ok(not pgq.create_queue('p', lane_keys => '{tenant}', max_leased => 5, rate => '100/min',
    lane_rate => '5/2 s', fair => true), 'the same is there already');
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
           from pgq.queue_limit), '(5,100/min,,,"5/2 s",t)', 'and nothing has changed');
select pgq.alter_queue('p', max_leased => 0, rate => '', lane_rate => '', fair => false);
select pgq.alter_queue('p', lane_keys => '{}');
select is((select count(*) from pgq.queue where limited), 0::bigint, 'all limits can be removed');

select is_empty('select * from pgq.check()', 'the stored state is sound');
select * from finish();
rollback;
