-- A session that returns a message may have read the queue before it got lanes. The message still
-- gets into its lane, where filtered claims find it.
select no_plan();
select t.at(now());
select pgq.create_queue('work', lease => '10 s');
select pgq.publish('work', '"a"', '{"type": "a"}'), pgq.publish('work', '"b"', '{"type": "b"}');
create temp table stale as select q as queue from pgq.queue q where q.name = 'work';
select is(t.take('work', n => 2), 'a b', 'both messages are leased');
select pgq.alter_queue('work', lane_keys => '{type}');
-- As maintain() leaves it when no older transaction is left.
update pgq.queue set unlaned_rows = false, unlaned_xid = null, unlaned_rank = null;
select t.advance('11 s');
select is((select pgq._take_back(s.queue, null, 10, 10, pgq.now()) from stale s), 2,
    'an upkeep that read the queue before the change takes both messages back');
select is(t.take('work', '{"type": "b"}'), 'b',
    'a filtered claim finds a message that was taken back');
select pgq.alter_queue('work', lane_keys => '{#type}');
call pgq.maintain();
select t.advance('11 s');
select is((select pgq._take_back(s.queue, null, 10, 10, pgq.now()) from stale s), 1,
    'an upkeep that read the queue before the lane key was hashed takes the message back');
select is(t.take('work', '{"type": "b"}'), 'b', 'a filtered claim finds the message by its hash');
select is(t.take('work', '{"type": "a"}'), 'a',
    'a filtered claim finds a message that was ready, too');
select is_empty('select * from pgq.check()', 'nothing is broken');
select pgq.drop_queue('work', force => true);
select * from finish();
