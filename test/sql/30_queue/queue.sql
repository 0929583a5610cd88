-- Queues: created, changed, paused, dropped.
begin;
select no_plan();
select t.at(now());

-- create
select is(pgq.create_queue('orders'), true, 'a queue is created by its name alone');
select ok((select to_jsonb(q) from pgq.queue q) @>
    '{"name": "orders", "mode": "queue", "lease": "00:00:30", "paused": false,
      "backoff": "00:00:01", "journal": "all", "set_size": 100, "lane_keys": null,
      "on_expiry": "dead_letter",
      "retention": "1 day", "lanes_full": false, "max_backoff": "00:05:00", "unlaned_xid": null,
      "dedup_window": "00:05:00", "max_attempts": 3, "unlaned_rows": false}'::jsonb,
    'a queue has sensible defaults');
select is(pgq.create_queue('orders'), false, 'creating a queue again changes nothing');
select is(pgq.create_queue('orders', lease => '30000 ms', retention => '24 hours'), false,
    'intervals in other units are the same policy');
select throws_ok($$select pgq.create_queue('orders', lease => '31 s')$$, 'QU002',
    'queue "orders" exists with another policy',
    'creating a queue again with another policy is refused');
select throws_ok(format('select pgq.create_queue(''orders'', %s)', x), 'QU002', null,
    format('a queue with another policy is refused: %s', x))
from unnest(array[$$lane_keys => '{type}'$$, 'max_attempts => 4', $$backoff => '2 s'$$,
    $$max_backoff => '6 min'$$, $$retention => '2 days'$$, $$mode => 'archive'$$,
    $$dedup_window => '1 s'$$, $$on_expiry => 'discard'$$, 'set_size => 1',
    $$journal => 'failures'$$, $$dedup => 'replace'$$]) x;
select matches(t.hint_of($$select pgq.create_queue('orders', max_attempts => 9)$$), 'alter_queue',
    'the hint names alter_queue');
select results_eq(
    format($$select t.answer('none', %L)$$, 'select pgq.create_queue(''orders'', ' || x || ')'),
    format($$select 'QU002 | queue "orders" exists with another policy | ' || %L
        || ' | Change it with pgq.alter_queue, or create it as it is.'$$, detail),
    'the error names the differences: ' || x)
from (values
    ($$lease => '31 s', retention => '24 hours'$$, 'lease is 00:00:30, not 00:00:31'),
    ($$mode => 'archive', max_attempts => 5$$,
     'max_attempts is 3, not 5; mode is queue, not archive'),
    ($$lane_keys => '{type}'$$, 'lane_keys is null, not ["type"]'),
    ($$lane_keys => '{auto}'$$, 'lane_keys is null, not ["auto"]'),
    ($$suggestions => true$$, 'suggestions is false, not true'),
    ($$rate => '5/s', max_leased => 7$$, 'max_leased is null, not 7; rate is null, not 5/s')
) e (x, detail);
select pgq.create_queue('limited', lane_keys => '{type}', fair => true, rate => '5/s');
select is(pgq.create_queue('limited', lane_keys => '{type}', fair => true, rate => '5/s'), false,
    'limits are compared with those of the existing queue, too');
select matches(
    t.answer('none', $$select pgq.create_queue('limited', '{type}', max_leased => 7)$$),
    'fair is true, not false; max_leased is null, not 7; rate is 5/s, not null',
    'the error names the limits that differ');
select pgq.drop_queue('limited');
select is((select count(*) from pgq.queue), 1::bigint, 'there is still one queue');
select throws_ok($$select pgq.create_queue('not a name')$$, '22023', null,
    'a queue needs a name that can be a topic');
select throws_ok($$select pgq.create_queue(null)$$, '22023', null,
    'the name of a queue is not null');
select is(pgq.create_queue('laned', lane_keys => '{}'), true,
    'a queue can be created with an empty list of lane keys');
select is((select lane_keys from pgq.queue where name = 'laned'), null,
    'a queue with an empty list of lane keys has no lanes');
select is(pgq.create_queue('all', '{type,region}', '1 min', 1, '0', '0', '0', 'archive', '0',
    'discard', 1, 'failures'), true,
    'a queue can be created with a value for every part of its policy');

-- every part of a policy is checked, by create and by alter
create temp table wrong (policy text);
insert into wrong values
    ($$lease => '0'$$), ($$lease => '-1 s'$$), ('max_attempts => 0'), ('max_attempts => 1001'),
    ($$backoff => '-1 s'$$), ($$backoff => '10 min'$$), ($$max_backoff => '0.5 s'$$),
    ($$retention => '-1 day'$$), ($$dedup_window => '-1 s'$$), ($$on_expiry => 'forget'$$),
    ($$lease => '1000000 years'$$), ($$backoff => '11 years', max_backoff => '11 years'$$),
    ($$max_backoff => '11 years'$$), ($$retention => '101 years'$$),
    ($$retention => '1000000 years'$$), ($$retention => '-1000000 years 370000000 days'$$),
    ($$dedup_window => '10 years 1 s'$$),
    ($$max_lease => '29 s'$$), ($$max_lease => '11 years'$$),
    ($$dedup => 'last'$$),
    ($$mode => 'stack'$$), ($$journal => 'none'$$), ('set_size => 0'), ('set_size => 1025'),
    ($$lane_keys => '{a,b,c,d,e}'$$), ($$lane_keys => '{a,a}'$$), ($$lane_keys => '{auto,a}'$$),
    ($$lane_keys => '{$a}'$$), ($$lane_keys => '{payload.a,payload.a.b}'$$),
    ($$lane_keys => '{payload.}'$$), ($$lane_keys => '{payload.a..b}'$$),
    ($$lane_keys => '{msg.attempt}'$$), ($$lane_keys => '{msg.nothing}'$$),
    ($$lane_keys => '{#a,#b}'$$), ($$lane_keys => '{#a,a}'$$), ($$lane_keys => '{headers.a,a}'$$),
    ($$lane_keys => '{a.b}'$$), ($$lane_keys => '{null}'$$), ($$lane_keys => '{""}'$$),
    (format('lane_keys => %L', array[repeat('a', 129)]));
select throws_ok(format('select pgq.create_queue(''wrong'', %s)', policy), '22023', null,
    'a new queue is refused with ' || left(policy, 40)) from wrong;
select throws_ok(format('select pgq.alter_queue(''orders'', %s)', policy), '22023', null,
    'a queue cannot be changed to ' || left(policy, 40)) from wrong;
select isnt(t.hint_of(format('select pgq.create_queue(''wrong'', %s)', policy)), '',
    'there is a hint for the refused ' || left(policy, 40)) from wrong;
select throws_ok(format('select pgq.create_queue(''wrong'', %s => null)', part), '22023', null,
    'a new queue needs a ' || part)
from unnest('{lease,max_attempts,backoff,max_backoff,retention,dedup_window,on_expiry,mode,journal,
    set_size,dedup}'::text[]) part;
select is((select count(*) from pgq.queue), 3::bigint, 'the refused calls created no queue');
select is((select lease from pgq.queue where name = 'orders'), '30 s',
    'the refused calls changed no queue');

-- alter
select lives_ok($$select pgq.alter_queue('orders', lease => '1 min', max_attempts => 5,
    backoff => '2 s', max_backoff => '1 min', retention => '2 days', dedup_window => '1 min',
    on_expiry => 'discard', set_size => 10, journal => 'failures', lane_keys => '{type}',
    dedup => 'postpone')$$,
    'every part of a policy can be changed');
select ok((select to_jsonb(q) from pgq.queue q where name = 'orders') @>
    '{"name": "orders", "mode": "queue", "lease": "00:01:00", "paused": false,
      "backoff": "00:00:02", "journal": "failures", "set_size": 10, "lane_keys": ["type"],
      "on_expiry": "discard", "dedup": "postpone",
      "retention": "2 days", "lanes_full": false, "max_backoff": "00:01:00",
      "dedup_window": "00:01:00", "max_attempts": 5, "unlaned_rows": true}'::jsonb,
    'the queue has the new policy');
select lives_ok($$select pgq.alter_queue('orders', lease => '2 min')$$,
    'one part of a policy can be changed alone');
select is((select array[lease::text, backoff::text, lane_keys::text] from pgq.queue
           where name = 'orders'),
    '{00:02:00,00:00:02,"{type}"}'::text[], 'the other parts of the policy stay');
select lives_ok($$select pgq.alter_queue('orders', lane_keys => '{}')$$,
    'lane keys can be removed');
select is((select lane_keys from pgq.queue where name = 'orders'), null,
    'a queue whose lane keys were removed has none');
select throws_ok($$select pgq.alter_queue('nowhere', lease => '1 s')$$, 'QU001', null,
    'a queue that does not exist cannot be changed');

select pgq.create_queue('hashing', '{#a,headers.b}');
select is(pgq.create_queue('hashing', '{a,b}'), false,
    'a lane key is the same whether it is hashed or not');
select pgq.alter_queue('hashing', lane_keys => '{b,a}');
select is((select lane_keys from pgq.queue where name = 'hashing'), '{b,#a}'::text[],
    'a hashed lane key stays hashed');
select pgq.alter_queue('hashing', lane_keys => '{#b,a}');
select is((select lane_keys from pgq.queue where name = 'hashing'), '{#b,a}'::text[],
    'a hashed lane key stops being hashed if another one is hashed');
select pgq.drop_queue('hashing');

-- a change of lane keys on a queue with messages
select pgq.create_queue('mixed');
select pgq.publish('mixed', '"a"', '{"type": "x", "region": "eu"}');
select pgq.publish('mixed', '"b"', '{"type": "y", "region": "us"}');
select pgq.alter_queue('mixed', lane_keys => '{type}');
select pgq.publish('mixed', '"c"', '{"type": "x", "region": "us"}');
select pgq.alter_queue('mixed', lane_keys => '{region}');
select pgq.publish('mixed', '"d"', '{"type": "x", "region": "eu"}');
select pgq.alter_queue('mixed', lane_keys => '{}');
select pgq.publish('mixed', '"e"', '{"type": "y", "region": "us"}');
select pgq.alter_queue('mixed', lane_keys => '{region,type}');
select pgq.publish('mixed', '"f"', '{"type": "x", "region": "eu"}');
select is(t.peek('mixed', '{"type": "x"}'), 'a c d f',
    'a filter finds messages from before, between and after changes of the lane keys');
select is(t.peek('mixed', '{"region": "us"}'), 'b c e',
    'a filter on another lane key finds messages from before and after the changes, too');
select is(t.peek('mixed', '{"region": "eu", "type": "x"}'), 'a d f',
    'a filter on two lane keys finds messages from before and after the changes, too');
select is(t.take('mixed', '{"type": "x"}', 10), 'a c d f',
    'a claim with a filter finds the same messages as peek');
select is(t.take('mixed', null, 10), 'b e', 'a claim with a filter leaves the other messages');
select is_empty('select * from pgq.check()', 'nothing is broken after the changes of lane keys');

-- pause and resume
select pgq.create_queue('calm');
select pgq.publish('calm', '"a"');
select is(pgq.pause('calm'), true, 'a queue can be paused');
select is(pgq.pause('calm'), false, 'pausing a paused queue changes nothing');
select is_empty($$select * from pgq.claim('calm')$$, 'a paused queue delivers nothing');
select is_empty($$select * from pgq.claim('calm', '{"a": 1}')$$,
    'a paused queue delivers nothing to a claim with a filter');
select isnt(pgq.publish('calm', '"b"'), null, 'a paused queue accepts messages');
select is(t.peek('calm'), 'a b', 'peek shows the messages of a paused queue');
select is(pgq.create_queue('calm'), false, 'create_queue accepts a queue that is paused');
select is(pgq.resume('calm'), true, 'a paused queue can be resumed');
select is(pgq.resume('calm'), false, 'resuming a running queue changes nothing');
select max(lease_id) as lease from pgq.claim('calm') \gset
select pgq.pause('calm');
select is(pgq.ack(:lease), 1,
    'a message that was claimed before can be acknowledged during a pause');
select pgq.resume('calm');
select is(t.take('calm', n => 5), 'b', 'a resumed queue delivers messages');
select throws_ok($$select pgq.pause('nowhere')$$, 'QU001', null,
    'a queue that does not exist cannot be paused');
select throws_ok($$select pgq.resume('nowhere')$$, 'QU001', null,
    'a queue that does not exist cannot be resumed');

-- drop
select pgq.create_queue('brief');
select is(pgq.drop_queue('brief'), true, 'an empty queue can be dropped');
select throws_ok($$select pgq.drop_queue('brief')$$, 'QU001', null,
    'a dropped queue cannot be dropped again');
select throws_ok($$select pgq.publish('brief', '1')$$, 'QU005', null,
    'publishing to the topic of a dropped queue is an error');
select pgq.create_queue('brief', max_attempts => 1, lane_keys => '{type}');
select pgq.publish('brief', '"r"');
select throws_ok($$select pgq.drop_queue('brief')$$, '55000', 'queue "brief" still holds messages',
    'a queue with ready messages is not dropped');
select max(lease_id) as lease from pgq.claim('brief') \gset
select throws_ok($$select pgq.drop_queue('brief')$$, '55000', null,
    'a queue with leased messages is not dropped');
select pgq.bury(:lease);
select throws_ok($$select pgq.drop_queue('brief')$$, '55000', null,
    'a queue with dead letters is not dropped');
select pgq.discard('brief');
select pgq.publish('brief', '"s"', delay => '1 h');
select throws_ok($$select pgq.drop_queue('brief')$$, '55000', null,
    'a queue with delayed messages is not dropped');
select matches(t.hint_of($$select pgq.drop_queue('brief')$$), 'force',
    'the hint names the argument force');
select pgq.publish('brief', '"r"', '{"type": "x"}'), pgq.publish('brief', '"l"'),
       pgq.publish('brief', '"d"', priority => 1);
select max(lease_id) as lease from pgq.claim('brief') \gset
select pgq.bury(:lease);
select max(lease_id) as lease from pgq.claim('brief') \gset
select queue_id from pgq.queue where name = 'brief' \gset
select is(pgq.drop_queue('brief', force => true), true,
    'drop_queue with force drops a queue that holds messages');
select is_empty(format(
    'select 1 from pgq.ready where queue_id = %1$s
     union all select 2 from pgq.scheduled where queue_id = %1$s
     union all select 3 from pgq.lease where queue_id = %1$s
     union all select 4 from pgq.dead_letter where queue_id = %1$s
     union all select 5 from pgq.lane where queue_id = %1$s
     union all select 6 from pgq.binding where queue_id = %1$s', :queue_id),
    'nothing of a dropped queue is left');
select throws_ok(format('select pgq.ack(%s)', :lease), 'QU003', null,
    'ack with a lease of a dropped queue raises QU003');
select is(pgq.create_queue('brief'), true, 'the name of a dropped queue can be used again');
select is_empty($$select * from pgq.claim('brief')$$,
    'a new queue has no messages of the dropped queue with its name');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
