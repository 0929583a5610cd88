-- A message is finished with a result, which is kept as long as the log.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', max_attempts => 1, journal => 'failures');
select pgq.create_queue('line');
select pgq.publish('work', '1') as first \gset
select pgq.publish('work', '2') as second \gset
select pgq.publish('work', '3') as third \gset
select is((select state from pgq.result(:first)), 'waiting',
    'the state of a ready message is waiting');
select max(lease_id) as lease from pgq.claim('work', n => 3) \gset
select is((select state from pgq.result(:first)), 'working',
    'the state of a leased message is working');
select pgq.finish(:lease, :first, '{"sum": 7}');
select results_eq(format('select queue, state, result, error, at from pgq.result(%s)', :first),
    $$values ('work', 'done', '{"sum": 7}'::jsonb, null::text, pgq.now())$$, 'a result is kept');
select throws_ok(format('select pgq.finish(%s, %s)', :lease, :first), 'QU003', null,
    'a message is finished once');
select throws_ok(format('select pgq.finish(%s, null)', :lease), '22023', null,
    'finish needs the id of a message');
select is(t.held('work', 'leased'), '2 3', 'the other messages of the lease stay leased');
select pgq.finish(:lease, :second);
select results_eq(format('select state, result from pgq.result(%s)', :second),
    $$values ('done', 'null'::jsonb)$$, 'a result may be null');
select pgq.nack(:lease, error => 'broken');
select results_eq(format('select state, error from pgq.result(%s)', :third),
    $$values ('dead', 'processing_error: broken')$$, 'the result of a dead letter is its error');
select pgq.discard('work');
select is((select state from pgq.result(:third)), 'done',
    'the state of a discarded dead letter is done');
select is_empty('select * from pgq.result(999999)', 'an unknown id has no result');
select is((select count(*) from pgq.history(:first) where event = 'ack'), 1::bigint,
    'the history of a finished message has one ack');
select pgq.publish('line', to_jsonb(n), group_key => 'g') from unnest('{a,b}'::text[]) n;
select pgq.finish(lease_id, id, '1') from pgq.claim('line');
select is(t.take('line'), 'b', 'a group continues after its head is finished');
select throws_ok('select pgq.wait_result(1, ''me'', ''2 days'')', '22023', null,
    'a wait of two days is refused');
select pgq.wait_result(1, 'me', '1 s');
select t.advance('2 s');
call pgq.maintain();
select is_empty('select * from pgq.result_waiter',
    'maintenance deletes waiters whose time is over');

-- rights
select pgq.publish('work', '4');
create role result_publisher;
select pgq.grant_queue('work', 'result_publisher', 'publish');
set local role result_publisher;
select pgq.publish('work', '5') as mine \gset
select is((select state from pgq.result(:mine)), 'waiting',
    'a publisher sees the state of its own message');
select is_empty(format('select * from pgq.result(%s)', :first),
    'a publisher does not see the result of a message of another role');
reset role;
select * from finish();
rollback;
