-- release returns messages without counting the attempt.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', lane_keys => '{type}', max_attempts => 2, backoff => '1 s');

insert into pgq.message (topic, payload, priority, headers)
select 'work', to_jsonb(i), case when i = 3 then 5 else 0 end,
       jsonb_build_object('type', case when i > 2 then 'b' else 'a' end)
from generate_series(1, 4) i;
select max(lease_id) as lease, min(id) as first from pgq.claim('work', n => 4) \gset
select is(pgq.release(:lease, array[:first]), 1, 'one message of a lease is released');
select is(t.held('work', 'leased'), '2 3 4', 'the others are still held');
select throws_ok(format('select pgq.release(%s, array[%s])', :lease, :first), 'QU003', null,
    'a released message is not held any more');
select is(pgq.release(:lease), 3, 'release without ids releases everything left');
select is(t.held('work', 'ready'), '1 2 3 4', 'released messages can be claimed at once');
select throws_ok(format('select pgq.release(%s)', :lease), 'QU003', null,
    'release with a stale lease is an error');
select is((select array_agg(distinct attempt) from pgq.ready), '{0}', 'no attempt is counted');
select is((select array_agg(size order by size) from pgq.journal where event = 'release'),
    '{1,1,2}'::int[], 'the audit log has a row for each call and priority');
select is(t.take('work', '{"type": "b"}', 10), '3 4',
    'released messages are in their lanes, in their order');

-- A message keeps all its attempts, however often it is released.
select pgq.create_queue('often', max_attempts => 1);
select pgq.publish('often', '"x"');
do $$
begin
    for i in 1 .. 5 loop
        perform pgq.release((select c.lease_id from pgq.claim('often') c));
    end loop;
end
$$;
select results_eq($$select attempt, payload from pgq.claim('often')$$, $$values (1, '"x"'::jsonb)$$,
    'a message that was released five times is at its first attempt');
select is_empty($$select from pgq.dead_letter$$, 'that message is not a dead letter');

-- A release keeps the earlier failures of a message.
select pgq.create_queue('past', max_attempts => 3, backoff => '1 s');
select pgq.publish('past', '"p"') as id \gset
select t.advance('1 s');
select pgq.nack((select lease_id from pgq.claim('past')), delay => '0', error => 'first');
select t.advance('1 s');
select pgq.release((select lease_id from pgq.claim('past')));
select t.advance('1 s');
create temp table again as select * from pgq.claim('past');
select is((select attempt from again), 2,
    'a redelivery after a release has the same attempt number');
select pgq.bury((select lease_id from again), error => 'last');
select is((select jsonb_path_query_array(failures, '$[*].error') from pgq.dead_letter),
    '["first", "last"]'::jsonb, 'the dead letter does not list a release as a failure');
select results_eq(
    format('select event from pgq.history(%s) where queue = %L', :id, 'past'),
    array['claim', 'nack', 'claim', 'release', 'claim', 'bury', 'dead'],
    'the history shows the release');

-- delay
select pgq.create_queue('later');
select pgq.publish('later', '"l"');
select is(pgq.release((select lease_id from pgq.claim('later')), delay => '10 s'), 1,
    'a message is released with a delay');
select is(t.held('later', 'delayed'), 'l', 'the released message is delayed');
select is(t.take('later'), null, 'the released message is not delivered before it is due');
select t.advance('10 s');
select is((select attempt from pgq.claim('later')), 1,
    'the released message is delivered when it is due, at its first attempt');
select throws_ok('select pgq.release(1, delay => ''-1 s'')', '22023', null,
    'a negative delay is an error');
select throws_ok('select pgq.release(1, delay => null)', '22023', null,
    'a delay of null is an error');
select throws_ok('select pgq.release(1)', 'QU003', null, 'a wrong token is an error');
select matches(t.hint_of('select pgq.release(1, delay => ''-1 s'')'), 'at once',
    'the hint says how to release at once');

-- Ordering groups
select pgq.create_queue('steps');
select pgq.publish('steps', to_jsonb(i), group_key => 'g') from generate_series(1, 3) i;
select max(lease_id) as lease from pgq.claim('steps', n => 10) \gset
select pgq.release(:lease);
create temp table head as select * from pgq.claim('steps', n => 10);
select is((select array_agg(payload) from head), '{1}'::jsonb[],
    'a released head of a group is its head again');
select pgq.ack((select lease_id from head));
select is(t.take('steps', n => 10), '2',
    'the next message of the group follows when the head is acknowledged');

-- A dropped queue
select pgq.create_queue('gone');
select pgq.publish('gone', '"g"');
select max(lease_id) as lease from pgq.claim('gone') \gset
select pgq.drop_queue('gone', force => true);
select throws_ok(format('select pgq.release(%s)', :lease), 'QU003', null,
    'a lease of a dropped queue is stale');

select is_empty($$select * from pgq.check()$$, 'nothing is broken');
select * from finish();
rollback;
