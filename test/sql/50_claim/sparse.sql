-- A lease of thousands of messages whose ids have gaps is written in parts, so that ending one of
-- them does not rewrite all. The test compares sizes.
begin;
select no_plan();
select t.at(now());

select pgq.create_queue('even', max_attempts => 2), pgq.create_queue('odd');
insert into pgq.message (topic, payload)
select case i % 2 when 0 then 'even' else 'odd' end, to_jsonb(i) from generate_series(1, 12000) i;
create temporary table held as select * from pgq.claim('even', n => 5000);
select is((select count(*) from held), 5000::bigint, 'a claim takes five thousand messages');
select is((select count(distinct lease_id) from held), 1::bigint,
    'all these messages have one lease');
select is((select array_agg(payload::int) from held),
    array(select i * 2 from generate_series(1, 5000) i), 'the messages are in order');
select cmp_ok((select count(*) from pgq.lease), '>', 1::bigint, 'the lease has several rows');
select cmp_ok((select max(pg_column_size(ids)) from pgq.lease), '<', 12000,
    'no row of the lease is large');
select lease_id from held limit 1 \gset

select (select array_agg(l.ctid order by l.part) from pgq.lease l) as before \gset
select is(pgq.ack(:lease_id, array[(select id from held where payload = '4000')]), 1,
    'one message is acknowledged');
select is((select count(*) from pgq.lease l where l.ctid <> all (:'before'::tid[])), 1::bigint,
    'the acknowledgement writes one row of the lease');
select is((select sum(size) from pgq.lease), 4999::bigint, 'the other messages are still held');
select is((select sum(pgq._set_size(ids)) from pgq.lease), 4999::bigint,
    'the rows of the lease have as many ids as their sizes say');
select throws_ok(format('select pgq.ack(%s, array[%s])', :lease_id,
        (select id from held where payload = '4000')), 'QU003', null,
    'acknowledging a message a second time is an error');
select throws_ok(format('select pgq.ack(%s, array[%s, %s])', :lease_id,
        (select id from held where payload = '2'), (select id from held where payload = '4000')),
    'QU003', null, 'an ack that names an acknowledged message is an error');
select is((select sum(size) from pgq.lease), 4999::bigint, 'a failed ack acknowledges nothing');
select is(pgq.ack(:lease_id, array(select id from held where payload <> '4000'
                                   and payload::int % 4 = 0)), 2499,
    'half of the messages are acknowledged');
select is((select sum(size) from pgq.lease), 2500::bigint, 'the other half is still held');
select is((select count(*) from pgq.leased(:lease_id)), 2500::bigint, 'the other half can be read');
select is(pgq.nack(:lease_id, array[(select id from held where payload = '2')], delay => '0'), 1,
    'one message is nacked');
select is((select string_agg(c.payload::text || pgq.ack(c.lease_id), '') from pgq.claim('even') c),
    '21', 'the nacked message is redelivered');
select isnt(pgq.extend(:lease_id, '1 h'), null, 'the lease is extended');
select is((select count(distinct until) from pgq.lease where lease_id = :lease_id), 1::bigint,
    'all rows of the lease have the same end');
select is(pgq.ack(:lease_id), 2499, 'one ack acknowledges the rest');
select is_empty(format('select from pgq.lease where lease_id = %s', :lease_id),
    'the lease is gone');
select throws_ok(format('select pgq.ack(%s)', :lease_id), 'QU003', null,
    'a lease that has ended cannot be acknowledged again');

-- ids without gaps stay in one row
select count(*) from pgq.publish_batch('even', array_fill('0'::jsonb, array[5000]));
select pgq.purge('odd');
select pgq.create_queue('bulk');
select count(*) from pgq.publish_batch('bulk', array_fill('0'::jsonb, array[20000]));
select count(*) from pgq.claim('bulk', n => 20000);
select is((select count(*) from pgq.lease l join pgq.queue q using (queue_id)
           where q.name = 'bulk'), 1::bigint, 'ids without gaps have one row');

-- messages of an expired lease do not become dead letters at their first timeout
select count(*) from pgq.claim('even', n => 1000);
create temporary table lost as select * from pgq.claim('even', n => 5000);
select t.advance('1 min');
select pgq._maintain();
select is((select count(*) from pgq.dead_letter), 0::bigint,
    'an expired lease makes no dead letters');
select is((select sum(size) from pgq.lease l join pgq.queue q using (queue_id)
           where q.name = 'even'), null, 'no message of the queue is held any more');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
