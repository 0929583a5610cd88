-- A lease of thousands of messages whose ids have gaps is written in parts, so that ending one of
-- them does not rewrite all. The test compares sizes.
begin;
select no_plan();
select t.at(now());

select pgq.create_queue('even', max_attempts => 2), pgq.create_queue('odd');
insert into pgq.message (topic, payload)
select case i % 2 when 0 then 'even' else 'odd' end, to_jsonb(i) from generate_series(1, 12000) i;
create temporary table held as select * from pgq.claim('even', n => 5000);
select is((select count(*) from held), 5000::bigint, 'five thousand messages');
select is((select count(distinct lease_id) from held), 1::bigint, 'have one lease');
select is((select array_agg(payload::int) from held),
    array(select i * 2 from generate_series(1, 5000) i), 'in order');
select cmp_ok((select count(*) from pgq.lease), '>', 1::bigint, 'of several rows');
select cmp_ok((select max(pg_column_size(ids)) from pgq.lease), '<', 12000, 'none of them large');
select lease_id from held limit 1 \gset

select (select array_agg(l.ctid order by l.part) from pgq.lease l) as before \gset
select is(pgq.ack(:lease_id, array[(select id from held where payload = '4000')]), 1,
    'one is acknowledged');
select is((select count(*) from pgq.lease l where l.ctid <> all (:'before'::tid[])), 1::bigint,
    'which writes one row');
select is((select sum(size) from pgq.lease), 4999::bigint, 'the others are held');
select is((select sum(pgq._set_size(ids)) from pgq.lease), 4999::bigint, 'and counted');
select throws_ok(format('select pgq.ack(%s, array[%s])', :lease_id,
        (select id from held where payload = '4000')), 'QU003', null, 'one is gone once');
select throws_ok(format('select pgq.ack(%s, array[%s, %s])', :lease_id,
        (select id from held where payload = '2'), (select id from held where payload = '4000')),
    'QU003', null, 'with one that is gone nothing is acknowledged');
select is((select sum(size) from pgq.lease), 4999::bigint, 'really nothing');
select is(pgq.ack(:lease_id, array(select id from held where payload <> '4000'
                                   and payload::int % 4 = 0)), 2499, 'half of all parts');
select is((select sum(size) from pgq.lease), 2500::bigint, 'the other half is held');
select is((select count(*) from pgq.leased(:lease_id)), 2500::bigint, 'and can be read');
select is(pgq.nack(:lease_id, array[(select id from held where payload = '2')], delay => '0'), 1,
    'one fails');
select is((select string_agg(c.payload::text || pgq.ack(c.lease_id), '') from pgq.claim('even') c),
    '21', 'and comes back');
select isnt(pgq.extend(:lease_id, '1 h'), null, 'the lease is extended');
select is((select count(distinct until) from pgq.lease where lease_id = :lease_id), 1::bigint,
    'as a whole');
select is(pgq.ack(:lease_id), 2499, 'the rest is acknowledged at once');
select is_empty(format('select from pgq.lease where lease_id = %s', :lease_id), 'and is gone');
select throws_ok(format('select pgq.ack(%s)', :lease_id), 'QU003', null, 'it was that lease');

-- ids without gaps stay in one row
select count(*) from pgq.publish_batch('even', array_fill('0'::jsonb, array[5000]));
select pgq.purge('odd');
select pgq.create_queue('bulk');
select count(*) from pgq.publish_batch('bulk', array_fill('0'::jsonb, array[20000]));
select count(*) from pgq.claim('bulk', n => 20000);
select is((select count(*) from pgq.lease l join pgq.queue q using (queue_id)
           where q.name = 'bulk'), 1::bigint, 'ids without gaps have one row');

-- what times out comes back, and nobody dies
select count(*) from pgq.claim('even', n => 1000);
create temporary table lost as select * from pgq.claim('even', n => 5000);
select t.advance('1 min');
select pgq._maintain();
select is((select count(*) from pgq.dead_letter), 0::bigint, 'nobody dies of a lost lease');
select is((select sum(size) from pgq.lease l join pgq.queue q using (queue_id)
           where q.name = 'even'), null, 'nothing is held');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
