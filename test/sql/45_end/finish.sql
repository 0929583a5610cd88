-- A message is finished with a result, which is kept as long as the log.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', max_attempts => 1, journal => 'failures');
select pgq.create_queue('line');
select pgq.publish('work', '1') as first \gset
select pgq.publish('work', '2') as second \gset
select pgq.publish('work', '3') as third \gset
select is((select state from pgq.result(:first)), 'waiting', 'a message waits');
select max(lease_id) as lease from pgq.claim('work', n => 3) \gset
select is((select state from pgq.result(:first)), 'working', 'or is worked on');
select pgq.finish(:lease, :first, '{"sum": 7}');
select results_eq(format('select queue, state, result, error, at from pgq.result(%s)', :first),
    $$values ('work', 'done', '{"sum": 7}'::jsonb, null::text, pgq.now())$$, 'a result is kept');
select throws_ok(format('select pgq.finish(%s, %s)', :lease, :first), 'QU003', null,
    'a message is finished once');
select throws_ok(format('select pgq.finish(%s, null)', :lease), '22023', null, 'it needs an id');
select is(t.held('work', 'leased'), '2 3', 'the others of the lease stay');
select pgq.finish(:lease, :second);
select results_eq(format('select state, result from pgq.result(%s)', :second),
    $$values ('done', 'null'::jsonb)$$, 'a result may be null');
select pgq.nack(:lease, error => 'broken');
select results_eq(format('select state, error from pgq.result(%s)', :third),
    $$values ('dead', 'processing_error: broken')$$, 'a dead letter has its error');
select pgq.discard('work');
select is((select state from pgq.result(:third)), 'done', 'what is nowhere any more is done');
select is_empty('select * from pgq.result(999999)', 'of what was never there nothing is known');
select is((select count(*) from pgq.history(:first) where event = 'ack'), 1::bigint,
    'the history has the acknowledgement');
select pgq.publish('line', to_jsonb(n), group_key => 'g') from unnest('{a,b}'::text[]) n;
select pgq.finish(lease_id, id, '1') from pgq.claim('line');
select is(t.take('line'), 'b', 'a group goes on');
select throws_ok('select pgq.wait_result(1, ''me'', ''2 days'')', '22023', null, 'a wait is short');
select pgq.wait_result(1, 'me', '1 s');
select t.advance('2 s');
call pgq.maintain();
select is_empty('select * from pgq.result_waiter', 'who waited too long is forgotten');

-- rights
select pgq.publish('work', '4');
create role result_publisher;
select pgq.grant_queue('work', 'result_publisher', 'publish');
set local role result_publisher;
select pgq.publish('work', '5') as mine \gset
select is((select state from pgq.result(:mine)), 'waiting', 'who published a message sees its end');
select is_empty(format('select * from pgq.result(%s)', :first), 'and no other');
reset role;
select * from finish();
rollback;
