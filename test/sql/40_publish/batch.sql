-- Many messages: publish_batch, and an INSERT of many rows.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('orders');

create temp table batch as
select pgq.publish_batch('orders', array['"a"', '"b"', '"c"']::jsonb[]) as id;
select is(array(select id from batch), array(select id from pgq.message order by payload),
    'a batch returns its ids in order');
select is(t.take('orders', n => 10), 'a b c', 'a batch is delivered in the order of its payloads');
select is((select size from pgq.lease), 3, 'one lease row holds all three messages of the batch');

select isnt_empty($$select pgq.publish_batch('orders', array['{"n": 1}', 'null']::jsonb[],
    array['{"type": "x"}', null]::jsonb[], priority => 3, delay => '5 s', expires_in => '1 h',
    sender => 's', recipient => 'r', reply_to => 'a', correlation_id => 'c')$$,
    'publish_batch accepts the optional fields of a message');
select is((select count(*) from pgq.scheduled), 1::bigint,
    'messages that are due at the same time share one row of pgq.scheduled');
select t.advance('5 s');
create temp table got as select * from pgq.claim('orders', n => 10);
select is(
    (select jsonb_agg(
         to_jsonb(g) - '{lease_id,id,published_at,expires_at,lease_until}'::text[] order by id)
     from got g),
    '[{"topic": "orders", "priority": 3, "attempt": 1, "headers": {"type": "x"},
       "payload": {"n": 1}, "sender": "s", "recipient": "r", "reply_to": "a",
       "correlation_id": "c", "group_key": null},
      {"topic": "orders", "priority": 3, "attempt": 1, "headers": {},
       "payload": null, "sender": "s", "recipient": "r", "reply_to": "a",
       "correlation_id": "c", "group_key": null}]',
    'every message of a batch has the fields given for the batch');
select is((select count(distinct expires_at) from got), 1::bigint,
    'all messages of a batch expire at the same time');
select count(*) from pgq.publish_batch('orders', array['"g"', '"h"']::jsonb[], group_key => 'k');
select is((select count(*) from pgq.message where group_key = 'k'), 2::bigint,
    'all messages of a batch can have one group key');
select pgq.drop_queue('orders', force => true), pgq.create_queue('orders');

-- limits
select throws_ok(format('select pgq.publish_batch(%s)', x), code, null,
    'a batch is refused: ' || why)
from (values
    ($$'orders', '{}'$$, '22023', 'no payloads'),
    ($$'orders', null$$, '22023', 'null instead of payloads'),
    ($$'orders', array_fill('1'::jsonb, array[100001])$$, '22023', 'more than 100000 payloads'),
    ($$'orders', array[['1', '2'], ['3', '4']]::jsonb[]$$, '22023', 'a two-dimensional array'),
    ($$'orders', array['1', '2']::jsonb[], array['{}']::jsonb[]$$, '22023', 'too few headers'),
    ($$'orders', array['1']::jsonb[], array['{}', '{}']::jsonb[]$$, '22023', 'too many headers'),
    ($$'orders', array['1', '2']::jsonb[], dedup_keys => '{a}'$$, '22023', 'too few dedup keys'),
    ($$'orders', array['1', null]::jsonb[]$$, '22004', 'one payload of null'),
    ($$'orders', array['1']::jsonb[], priority => 1001$$, '22023', 'priority out of range'),
    ($$'orders', array['1']::jsonb[], priority => null$$, '22023', 'a priority of null'),
    ($$'orders', array['1']::jsonb[], delay => '-1 s'$$, '22023', 'a negative delay'),
    ($$'orders', array['1']::jsonb[], expires_in => '0'$$, '22023', 'an expires_in of zero'),
    ($$'orders', array['1', '2']::jsonb[], array['{}', '{"a": []}']::jsonb[]$$, '22023',
     'an array in a header'),
    ($$'orders', array['1', '2']::jsonb[], array['{"a": {}}', null]::jsonb[]$$, '22023',
     'an object in a header'),
    ($$'orders', array['1', '2']::jsonb[], array['[]', '{}']::jsonb[]$$, '22023',
     'headers that are not an object'),
    ($$'nobody', array['1', '2']::jsonb[]$$, 'QU005', 'a topic that no queue receives'),
    ($$'bad topic', array['1', '2']::jsonb[]$$, '22023', 'a topic with a space')) r (x, code, why);
select matches(t.hint_of($$select pgq.publish_batch('orders', '{}')$$), 'COPY',
    'the error for a wrong batch size has a hint at COPY');
select is(t.take('orders', n => 10), null, 'a refused batch delivers nothing');
select is((select count(*) from (select pgq.publish_batch(
    'orders', array_fill('1'::jsonb, array[100000]))) x), 100000::bigint,
    'a batch of 100000 is accepted');
select is((select sum(size) from pgq.ready), 100000::bigint,
    'all messages of a batch of 100000 are ready');
select is((select max(size) from pgq.ready), 100,
    'a ready row holds at most 100 messages by default');
select pgq.drop_queue('orders', force => true);

-- set_size: the messages of one ready row
select pgq.create_queue('sets', set_size => 10);
select count(*) from pgq.publish_batch('sets', array_fill('1'::jsonb, array[25]));
select is(array(select size from pgq.ready order by rank), '{10,10,5}'::int[],
    'set_size limits the messages of one ready row');
insert into pgq.message (topic, payload, priority)
select 'sets', to_jsonb(i), i % 2 from generate_series(1, 24) i;
select is(array(select size from pgq.ready order by rank), '{10,2,10,10,5,10,2}'::int[],
    'all messages of a ready row have the same priority, also when their ids have gaps');
select is((select count(*) from pgq.claim('sets', n => 1000)), 49::bigint,
    'all 49 messages can be claimed');
insert into pgq.message (topic, payload, expires_at, deliver_at)
select 'sets', to_jsonb(i), now() + i % 2 * interval '1 h',
       case when i % 3 = 0 then now() + interval '1 min' end
from generate_series(1, 12) i;
select is((select count(distinct expires_at) from pgq.ready), 2::bigint,
    'messages with different expiry times are in different ready rows');
select is((select count(*) from pgq.scheduled), 2::bigint,
    'delayed messages with two expiry times make two rows of pgq.scheduled');
select pgq.drop_queue('sets', force => true);

-- lanes
select pgq.create_queue('lanes', '{type,vip}');
select pgq.publish('lanes', '1', '{"type": "a", "vip": true, "other": 1}');
select pgq.publish('lanes', '2', '{"type": "a", "vip": true, "other": 2}');
select pgq.publish('lanes', '3', '{"type": "a"}');
insert into pgq.message (topic, payload, headers) values
    ('lanes', '4', '{"type": "b"}'), ('lanes', '5', '{"type": "a", "vip": true}'),
    ('lanes', '6', '{}'), ('lanes', '7', '{"type": null}'), ('lanes', '8', '{"vip": "true"}');
select bag_eq($$select document -> 'headers' from pgq.lane$$,
    $$values ('{"type": "a", "vip": true}'::jsonb), ('{"type": "a"}'), ('{"type": "b"}'), ('{}'),
             ('{"type": null}'), ('{"vip": "true"}')$$,
    'each combination of values has a lane; types differ, and null differs from missing');
select is((select count(distinct l.lane_id) from pgq.ready r join pgq.lane l using (lane_id)
           where l.document -> 'headers' = '{"type": "a", "vip": true}'), 1::bigint,
    'messages with the same values share a lane');
select is_empty('select from pgq.ready where lane_id is null', 'every message has a lane');
select pgq.publish('lanes', '9', jsonb_build_object('type', repeat('long', 200)));
select is((select count(*) from pgq.lane where label is null), 1::bigint,
    'a message with a very long lane value goes into the overflow lane');
select is(t.take('lanes', jsonb_build_object('type', repeat('long', 200)), 10), '9',
    'a filter finds a message in the overflow lane');

-- a key with too many values
insert into pgq.message (topic, payload, headers)
select 'lanes', to_jsonb(i), jsonb_build_object('type', i) from generate_series(1, 1500) i;
select cmp_ok((select count(*) from pgq.lane), '<=', 1001::bigint,
    'the number of lanes is limited');
select is((select lane_keys from pgq.queue where name = 'lanes'), '{#type,vip}'::text[],
    'the lane key with the most values becomes a hashed key when there are too many lanes');
select is(t.take('lanes', '{"type": 1499}', 10), '1499',
    'a filter finds a message whose value has no lane of its own');
select is(t.take('lanes', '{"type": 3}', 10), '3',
    'a filter finds a message whose value has a lane of its own');
select pgq.publish('lanes', '"new"', '{"type": "another"}');
select isnt((select r.hash from pgq.ready r order by r.ids desc limit 1), null,
    'a new value of a hashed key is stored as a hash');
select is(t.take('lanes', '{"type": "another"}', 10), 'new',
    'a filter finds a message by the hash of its value');
call pgq.maintain();
select is((select count(*) from pgq.ready where hash is null), 0::bigint,
    'maintenance adds the hash to rows from before the key was hashed');
select is(t.take('lanes', '{"type": {"$in": [7, 1498, "none"]}}', 10), '7 1498',
    'a filter finds the messages of rows to which maintenance has added the hash');
select is_empty('select * from pgq.check()',
    'nothing is broken after a lane key has become a hashed key');
select pgq.drop_queue('lanes', force => true);

-- all or nothing
select pgq.create_queue('orders');
savepoint before;
select count(*) from pgq.publish_batch('orders', array['1', '2', '3']::jsonb[]);
rollback to before;
select is(t.take('orders', n => 10), null, 'a batch that is rolled back is not delivered');

select is_empty('select * from pgq.check()', 'nothing is broken');

-- The ids of a lane are stored in order whatever plan the planner chooses.
set local enable_hashagg = off;
select pgq.create_queue('sorted', lane_keys => '{k,z}');
select pgq.publish('sorted', '0', '{"k": 0}');  -- fills the routing cache
select count(b)
from unnest('{2b 0a 0b 1a 0b 1a 1a,1a 0a 1a 1a 0b 1a 1a,0a 1b 0a 0a 1b 0a 1b}'::text[]) p
cross join lateral pgq.publish_batch('sorted', array_fill('1'::jsonb, array[7]),
    array(select jsonb_build_object('k', left(v, 1), 'z', right(v, 1))
          from unnest(string_to_array(p, ' ')) with ordinality u (v, i) order by i)) b;
select is_empty('select * from pgq.check()',
    'a batch with mixed lane values leaves nothing broken');
select is((select count(distinct id) from pgq.claim('sorted', n => 100)), 22::bigint,
    'every message of the mixed batches is delivered');
reset enable_hashagg;

select * from finish();
rollback;
