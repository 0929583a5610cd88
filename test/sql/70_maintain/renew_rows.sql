-- Transaction ids from the future, from a dump of an older cluster, are replaced.
select no_plan();
select t.at(now());
select pgq.create_queue('work');
select count(*) from pgq.publish_batch('work', array(select to_jsonb(i)
                                                     from generate_series(1, 250) i));
update pgq.ready set xid = '4000000000000'::xid8;
select is((select count(*) from pgq.claim('work', n => 10)), 10::bigint,
    'rows with a transaction id from the future can be claimed');
call pgq.maintain();
select is((select count(*) from pgq.ready where xid > pg_snapshot_xmax(pg_current_snapshot())),
    0::bigint, 'maintenance replaces transaction ids from the future');
select is((select sum(size) from pgq.ready), 240::bigint, 'no message is lost');
select is(t.take('work', n => 3), '11 12 13', 'messages are delivered in order');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
