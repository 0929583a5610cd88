-- One message: publish, and a plain INSERT of one row.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('orders', lease => '1 day');

-- every field
select pgq.publish('orders', '{"total": 12.50}', '{"type": "paid", "n": 1, "vip": true, "x": null}',
    priority => 7, delay => '0', expires_in => '1 h', sender => 'shop', recipient => 'billing',
    reply_to => 'shop.answers', correlation_id => 'c-1', group_key => 'g-1', dedup_key => 'd-1')
    as id \gset
select is((select to_jsonb(m) - '{published_at,expires_at,deliver_at,era,publisher}'::text[]
           from pgq.message m where id = :id),
    jsonb_build_object('id', :id) || '{"topic": "orders", "priority": 7, "sender": "shop",
        "headers": {"type": "paid", "n": 1, "vip": true, "x": null}, "payload": {"total": 12.50},
        "recipient": "billing", "reply_to": "shop.answers", "correlation_id": "c-1",
        "group_key": "g-1", "dedup_key": "d-1"}',
    'the log keeps every field');
select is((select expires_at from pgq.message where id = :id), pgq.now() + interval '1 h',
    'the log knows when a message expires');
select is((select published_at from pgq.message where id = :id), now(),
    'a message is published when its transaction began');
select is((select to_jsonb(c) - '{lease_id,published_at,expires_at,lease_until}'::text[]
           from pgq.claim('orders') c),
    jsonb_build_object('id', :id) || '{"topic": "orders", "priority": 7, "attempt": 1,
        "headers": {"type": "paid", "n": 1, "vip": true, "x": null}, "payload": {"total": 12.50},
        "sender": "shop", "recipient": "billing", "reply_to": "shop.answers",
        "correlation_id": "c-1", "group_key": "g-1"}',
    'the consumer gets every field');
select pgq.publish('orders', 'null') as id \gset
select is((select to_jsonb(m) - '{id,era,published_at,publisher}'::text[]
           from pgq.message m where id = :id),
    '{"topic": "orders", "priority": 0, "headers": {}, "payload": null, "sender": null,
      "recipient": null, "reply_to": null, "correlation_id": null, "group_key": null,
      "dedup_key": null, "deliver_at": null, "expires_at": null}',
    'topic and payload are enough, and a payload may be a JSON null');
select isnt(pgq.publish('orders', '1', headers => null), null, 'headers of null are no headers');
select is((select array_agg(p order by i) from (
        select i, pgq.publish('orders', to_jsonb(i)) - currval('pgq.message_id') as p
        from generate_series(1, 3) i) x), '{0,0,0}'::bigint[], 'publish returns the id');
select pgq.drop_queue('orders', force => true);

-- order
select pgq.create_queue('orders', lease => '1 day');
select pgq.publish('orders', '"e"'), pgq.publish('orders', '"a"', priority => 1000),
       pgq.publish('orders', '"c"', priority => 5), pgq.publish('orders', '"g"', priority => -1000),
       pgq.publish('orders', '"b"', priority => 6), pgq.publish('orders', '"d"', priority => 5),
       pgq.publish('orders', '"f"');
select is(t.take('orders', n => 10), 'a b c d e f g',
    'higher priority comes first, then the older message');

-- delay and expiry
select pgq.publish('orders', '"later"', delay => '10 s');
select pgq.publish('orders', '"now"');
insert into pgq.message (topic, payload, deliver_at) values
    ('orders', '"past"', pgq.now() - interval '1 h');
insert into pgq.message (topic, payload, deliver_at) values
    ('orders', '"later too"', pgq.now() + interval '20 s');
select is(t.held('orders', 'delayed'), 'later later too', 'delayed messages wait');
select is(t.take('orders', n => 10), 'now past', 'a delay of the past is none');
select t.advance('10 s');
select is(t.take('orders', n => 10), 'later', 'a delayed message is delivered when it is due');
select t.advance('9.9 s');
select is(t.take('orders', n => 10), null, 'and not a moment earlier');
select t.advance('0.1 s');
select is(t.take('orders', n => 10), 'later too', 'but then');
select pgq.publish('orders', '"short"', delay => '1 min', expires_in => '30 s');
select t.advance('1 min');
select is(t.take('orders', n => 10), null, 'what expires before it is due is never delivered');
select is((select reason from pgq.dead_letter where payload = '"short"'), 'expired',
    'it is a dead letter');

-- what is refused, and how
select throws_ok(format('select pgq.publish(%s)', x), code, null, 'publish is refused: ' || why)
from (values
    ($$'orders', null$$, '22004', 'no payload'),
    ($$'orders', '1', priority => 1001$$, '22023', 'priority above 1000'),
    ($$'orders', '1', priority => -1001$$, '22023', 'priority below -1000'),
    ($$'orders', '1', priority => null$$, '22023', 'priority null'),
    ($$'orders', '1', delay => '-1 s'$$, '22023', 'a negative delay'),
    ($$'orders', '1', delay => '1 s', deliver_at => now()$$, '22023', 'two times of delivery'),
    ($$'orders', '1', expires_in => '0'$$, '22023', 'expired from the start'),
    ($$'orders', '1', expires_in => '-1 s'$$, '22023', 'expired before'),
    ($$'orders', '1', '{"a": [1]}'$$, '22023', 'an array in a header'),
    ($$'orders', '1', '{"a": 1, "b": {}}'$$, '22023', 'an object in a header'),
    ($$'orders', '1', '[]'$$, '22023', 'headers that are an array'),
    ($$'orders', '1', '"a"'$$, '22023', 'headers that are a text'),
    ($$'orders', '1', 'null'$$, '22023', 'headers that are a JSON null'),
    ($$'nobody', '1'$$, 'QU005', 'a topic that no queue receives'),
    ($$'orders.new', '1'$$, 'QU005', 'a topic that only begins like one'),
    ($$'Orders', '1'$$, 'QU005', 'a topic in other letters'),
    ($$'a b', '1'$$, '22023', 'a topic with a space'),
    ($$'orders.', '1'$$, '22023', 'a topic with an empty word'),
    ($$'orders.*', '1'$$, '22023', 'a topic with a wildcard'),
    ($$'', '1'$$, '22023', 'an empty topic'),
    ($$null, '1'$$, '22023', 'no topic')) r (x, code, why);
select throws_ok('insert into pgq.message (topic, headers, payload, priority) values ' || x,
    code, null, 'an INSERT is refused: ' || why)
from (values
    ($$('orders', '{"a": [1]}', '1', 0)$$, '22023', 'an array in a header'),
    ($$('orders', '{"a": {"b": 1}}', '1', 0)$$, '22023', 'an object in a header'),
    ($$('orders', '[1]', '1', 0)$$, '22023', 'headers that are an array'),
    ($$('orders', '{}', '1', 1001)$$, '22023', 'priority out of range'),
    ($$('orders', '{}', null, 0)$$, '23502', 'no payload'),
    ($$('nobody', '{}', '1', 0)$$, 'QU005', 'a topic that no queue receives'),
    ($$('bad topic', '{}', '1', 0)$$, '22023', 'a bad topic'),
    ($$('orders', '{}', '1', 0), ('orders', '{"a": [1]}', '2', 0)$$, '22023',
     'an array in the second of two'),
    ($$('orders', '{"a": {}}', '1', 0), ('orders', '{}', '2', 0)$$, '22023',
     'an object in the first of two'),
    ($$('orders', '{}', '1', 0), ('orders', '{}', '2', -1001)$$, '22023',
     'one of two with a priority out of range'),
    ($$('orders', '{}', '1', 0), ('nobody', '{}', '2', 0)$$, 'QU005',
     'one of two that no queue receives')) r (x, code, why);
select matches(t.hint_of($$select pgq.publish('nobody', '1')$$), 'create_queue',
    'who publishes to nobody is told what to do');
select matches(t.hint_of($$select pgq.publish('orders', '1', '{"a": []}')$$), 'payload',
    'who nests headers is told where to put it');
select isnt(t.hint_of(format('select pgq.publish(''orders'', %s)', x)), '',
    'there is a hint against ' || x)
from unnest(array['null', $$'1', priority => 2000$$, $$'1', delay => '-1 s'$$,
                  $$'1', expires_in => '0'$$]) x;
select is(t.take('orders', n => 10), null, 'nothing of that was delivered');

-- transactions
savepoint before;
select pgq.publish('orders', '"undone"', dedup_key => 'undone');
insert into pgq.message (topic, payload) values ('orders', '"undone"'), ('orders', '"undone"');
select pgq.publish('orders', '"undone"', delay => '1 s');
rollback to before;
select is_empty($$select from pgq.message where payload = '"undone"'$$,
    'what is rolled back was never published');
select is(t.held('orders', 'ready'), null, 'nor is it ready');
select is(t.held('orders', 'delayed'), null, 'nor delayed');
select is_empty($$select from pgq.dedup where dedup_key = 'undone'$$, 'nor in the way of others');

-- stored only
insert into pgq.message (topic, payload, deliver_at) values ('orders', '"kept"', 'infinity');
insert into pgq.message (topic, payload, deliver_at)
values ('orders', '"kept"', 'infinity'), ('orders', '"sent"', null),
       ('nobody', '"kept"', 'infinity');
select is((select count(*) from pgq.message where payload = '"kept"'), 3::bigint,
    'a message for the end of time is stored');
select is(t.take('orders', n => 10), 'sent', 'and delivered to nobody');

-- an archive
select pgq.create_queue('audit', mode => 'archive');
select isnt(pgq.publish('audit', '"a"'), null, 'an archive accepts messages');
insert into pgq.message (topic, payload) values ('audit', '"b"'), ('audit', '"c"');
select is((select count(*) from pgq.message where topic = 'audit'), 3::bigint,
    'an archive stores them');
select is_empty($$select from pgq.message_state where queue = 'audit'$$,
    'it has nothing to deliver');
select throws_ok($$select pgq.claim('audit')$$, '0A000', null, 'claiming from it is an error');
select matches(t.hint_of($$select pgq.claim('audit')$$), 'read_log', 'that tells what to do');

-- who receives what
select pgq.create_queue('copy');
insert into pgq.binding (queue_id, pattern)
select queue_id, 'orders' from pgq.queue where name in ('copy', 'audit');
select pgq._rerouted();
select pgq.publish('orders', '"for both"');
insert into pgq.message (topic, payload)
values ('orders', '"x"'), ('copy', '"y"'), ('orders', '"z"');
select is(t.take('orders', n => 10), 'for both x z', 'a queue receives the messages of its topic');
select is(t.take('copy', n => 10), 'for both x y z', 'another queue receives them too');
select is_empty($$select from pgq.message_state where queue = 'audit'$$, 'an archive does not');
select is((select count(*) from pgq.message where payload = '"for both"'), 1::bigint,
    'the message is stored once');
select is((select count(*) from pgq.route where topic = 'orders'), 1::bigint,
    'publishing has learnt who receives the topic');
select pgq.drop_queue('copy', force => true);
select isnt(pgq.publish('orders', '"again"'), null,
    'when a queue is gone the others still receive');
select is(t.take('orders', n => 10), 'again', 'as they did');
insert into pgq.route select r.* from pgq.route r where r.topic = 'orders';
select pgq.publish('orders', '"learnt twice"');
select is(t.take('orders', n => 10), 'learnt twice',
    'a topic that two publishers have learnt at once is delivered once');
insert into pgq.message (topic, payload) select 'orders', '1' where false;
select is(t.take('orders', n => 10), null, 'an INSERT of no rows publishes nothing');

select is_empty('select * from pgq.check()', 'nothing is broken');
-- a time of delivery
select pgq.create_queue('at', lane_keys => '{type}');
select count(*) from (values
    (pgq.publish('at', '"one"', deliver_at => pgq.now() + interval '10 s')),
    (pgq.publish('at', '"json"'::json, deliver_at => pgq.now() + interval '10 s')),
    (pgq.publish('at', '"past"', deliver_at => '2000-01-01'))) p;
select count(*) from pgq.publish_batch('at', '{2,3}', deliver_at => pgq.now() + interval '10 s');
select is(t.held('at', 'delayed'), 'one json 2 3', 'messages wait for their time of delivery');
select is(t.take('at', n => 10), 'past', 'unless it is over');
select t.advance('10 s');
select is(t.take('at', n => 10), 'one json 2 3', 'then they are delivered');
-- From PostgreSQL 17 on an interval may be infinite.
select pgq.create_queue('never');
select pgq.publish('never', '1', delay => 'infinity'::text::interval)
where current_setting('server_version_num')::int >= 170000;
select t.advance('1 year');
select is(t.take('never'), null, 'what has an infinite delay is delivered to nobody');
select is_empty('select * from pgq.check()', 'which is no defect');
select * from finish();
rollback;
