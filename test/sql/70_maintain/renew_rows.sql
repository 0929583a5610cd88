-- Transaction ids from the future, from a dump of an older cluster, are replaced.
select no_plan();
select t.at(now());
select pgq.create_queue('work');
select count(*) from pgq.publish_batch('work', array(select to_jsonb(i)
                                                     from generate_series(1, 250) i));
update pgq.ready set xid = '4000000000000'::xid8;
select is((select count(*) from pgq.claim('work', n => 10)), 10::bigint, 'such rows are claimed');
call pgq.maintain();
select is((select count(*) from pgq.ready where xid > pg_snapshot_xmax(pg_current_snapshot())),
    0::bigint, 'and get ids of their own');
select is((select sum(size) from pgq.ready), 240::bigint, 'none is lost');
select is(t.take('work', n => 3), '11 12 13', 'in their order');
select is_empty('select * from pgq.check()', 'all is well');
select * from finish();
