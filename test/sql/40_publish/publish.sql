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
    'the log stores when a message expires');
select is((select published_at from pgq.message where id = :id), now(),
    'published_at is the start of the transaction');
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
select isnt(pgq.publish('orders', '1', headers => null), null, 'headers => null is accepted');
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
    'a higher priority is delivered first, then the older message');

-- delay and expiry
select pgq.publish('orders', '"later"', delay => '10 s');
select pgq.publish('orders', '"now"');
insert into pgq.message (topic, payload, deliver_at) values
    ('orders', '"past"', pgq.now() - interval '1 h');
insert into pgq.message (topic, payload, deliver_at) values
    ('orders', '"later too"', pgq.now() + interval '20 s');
select is(t.held('orders', 'delayed'), 'later later too', 'delayed messages wait');
select is(t.take('orders', n => 10), 'now past',
    'a message with a delivery time in the past is delivered at once');
select t.advance('10 s');
select is(t.take('orders', n => 10), 'later', 'a delayed message is delivered when it is due');
select t.advance('9.9 s');
select is(t.take('orders', n => 10), null,
    'a delayed message is not delivered 0.1 s before it is due');
select t.advance('0.1 s');
select is(t.take('orders', n => 10), 'later too',
    'a delayed message is delivered exactly when it is due');
select pgq.publish('orders', '"short"', delay => '1 min', expires_in => '30 s');
select t.advance('1 min');
select is(t.take('orders', n => 10), null,
    'a message that expires before it is due is never delivered');
select is((select reason from pgq.dead_letter where payload = '"short"'), 'expired',
    'a message that expires before it is due becomes a dead letter');

-- errors and their hints
select throws_ok(format('select pgq.publish(%s)', x), code, null, 'publish is refused: ' || why)
from (values
    ($$'orders', null$$, '22004', 'no payload'),
    ($$'orders', '1', priority => 1001$$, '22023', 'priority above 1000'),
    ($$'orders', '1', priority => -1001$$, '22023', 'priority below -1000'),
    ($$'orders', '1', priority => null$$, '22023', 'priority null'),
    ($$'orders', '1', delay => '-1 s'$$, '22023', 'a negative delay'),
    ($$'orders', '1', delay => '1 s', deliver_at => now()$$, '22023', 'both delay and deliver_at'),
    ($$'orders', '1', expires_in => '0'$$, '22023', 'an expires_in of zero'),
    ($$'orders', '1', expires_in => '-1 s'$$, '22023', 'a negative expires_in'),
    ($$'orders', '1', '{"a": [1]}'$$, '22023', 'an array in a header'),
    ($$'orders', '1', '{"a": 1, "b": {}}'$$, '22023', 'an object in a header'),
    ($$'orders', '1', '[]'$$, '22023', 'headers that are an array'),
    ($$'orders', '1', '"a"'$$, '22023', 'headers that are a string'),
    ($$'orders', '1', 'null'$$, '22023', 'headers that are a JSON null'),
    ($$'nobody', '1'$$, 'QU005', 'a topic that no queue receives'),
    ($$'orders.new', '1'$$, 'QU005', 'a topic that only begins with the name of a queue'),
    ($$'Orders', '1'$$, 'QU005', 'a topic in another letter case'),
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
    ($$('bad topic', '{}', '1', 0)$$, '22023', 'a topic with a space'),
    ($$('orders', '{}', '1', 0), ('orders', '{"a": [1]}', '2', 0)$$, '22023',
     'an array in a header of the second of two rows'),
    ($$('orders', '{"a": {}}', '1', 0), ('orders', '{}', '2', 0)$$, '22023',
     'an object in a header of the first of two rows'),
    ($$('orders', '{}', '1', 0), ('orders', '{}', '2', -1001)$$, '22023',
     'one of two rows with a priority out of range'),
    ($$('orders', '{}', '1', 0), ('nobody', '{}', '2', 0)$$, 'QU005',
     'one of two rows with a topic that no queue receives')) r (x, code, why);
select matches(t.hint_of($$select pgq.publish('nobody', '1')$$), 'create_queue',
    'the error for a topic that no queue receives has a hint at create_queue');
select matches(t.hint_of($$select pgq.publish('orders', '1', '{"a": []}')$$), 'payload',
    'the error for nested headers has a hint at the payload');
select isnt(t.hint_of(format('select pgq.publish(''orders'', %s)', x)), '',
    'the error has a hint: ' || x)
from unnest(array['null', $$'1', priority => 2000$$, $$'1', delay => '-1 s'$$,
                  $$'1', expires_in => '0'$$]) x;
select is(t.take('orders', n => 10), null, 'refused messages are not delivered');

-- transactions
savepoint before;
select pgq.publish('orders', '"undone"', dedup_key => 'undone');
insert into pgq.message (topic, payload) values ('orders', '"undone"'), ('orders', '"undone"');
select pgq.publish('orders', '"undone"', delay => '1 s');
rollback to before;
select is_empty($$select from pgq.message where payload = '"undone"'$$,
    'a message that is rolled back is not in the log');
select is(t.held('orders', 'ready'), null, 'a message that is rolled back is not ready');
select is(t.held('orders', 'delayed'), null, 'a message that is rolled back is not delayed');
select is_empty($$select from pgq.dedup where dedup_key = 'undone'$$,
    'a message that is rolled back leaves no dedup key');

-- stored only
insert into pgq.message (topic, payload, deliver_at) values ('orders', '"kept"', 'infinity');
insert into pgq.message (topic, payload, deliver_at)
values ('orders', '"kept"', 'infinity'), ('orders', '"sent"', null),
       ('nobody', '"kept"', 'infinity');
select is((select count(*) from pgq.message where payload = '"kept"'), 3::bigint,
    'a message with deliver_at infinity is stored');
select is(t.take('orders', n => 10), 'sent', 'a message with deliver_at infinity is not delivered');

-- an archive
select pgq.create_queue('audit', mode => 'archive');
select isnt(pgq.publish('audit', '"a"'), null, 'an archive accepts messages');
insert into pgq.message (topic, payload) values ('audit', '"b"'), ('audit', '"c"');
select is((select count(*) from pgq.message where topic = 'audit'), 3::bigint,
    'an archive stores its messages');
select is_empty($$select from pgq.message_state where queue = 'audit'$$,
    'an archive has nothing to deliver');
select throws_ok($$select pgq.claim('audit')$$, '0A000', null,
    'claiming from an archive is an error');
select matches(t.hint_of($$select pgq.claim('audit')$$), 'read_log',
    'the error of a claim from an archive has a hint at read_log');

-- routing
select pgq.create_queue('copy');
insert into pgq.binding (queue_id, pattern)
select queue_id, 'orders' from pgq.queue where name in ('copy', 'audit');
select pgq._rerouted();
select pgq.publish('orders', '"for both"');
insert into pgq.message (topic, payload)
values ('orders', '"x"'), ('copy', '"y"'), ('orders', '"z"');
select is(t.take('orders', n => 10), 'for both x z', 'a queue receives the messages of its topic');
select is(t.take('copy', n => 10), 'for both x y z',
    'another queue with a binding receives the messages too');
select is_empty($$select from pgq.message_state where queue = 'audit'$$,
    'an archive with a binding has nothing to deliver');
select is((select count(*) from pgq.message where payload = '"for both"'), 1::bigint,
    'the message is stored once');
select is((select count(*) from pgq.route where topic = 'orders'), 1::bigint,
    'publishing stores the topic in the routing cache');
select pgq.drop_queue('copy', force => true);
select isnt(pgq.publish('orders', '"again"'), null,
    'publishing works after one of the queues of the topic was dropped');
select is(t.take('orders', n => 10), 'again',
    'the remaining queue of the topic receives the message');
insert into pgq.route select r.* from pgq.route r where r.topic = 'orders';
select pgq.publish('orders', '"cached twice"');
select is(t.take('orders', n => 10), 'cached twice',
    'a message is delivered once if the routing cache holds its topic twice');
insert into pgq.message (topic, payload) select 'orders', '1' where false;
select is(t.take('orders', n => 10), null, 'an INSERT of no rows publishes nothing');

select is_empty('select * from pgq.check()', 'nothing is broken');
-- deliver_at
select pgq.create_queue('at', lane_keys => '{type}');
select count(*) from (values
    (pgq.publish('at', '"one"', deliver_at => pgq.now() + interval '10 s')),
    (pgq.publish('at', '"json"'::json, deliver_at => pgq.now() + interval '10 s')),
    (pgq.publish('at', '"past"', deliver_at => '2000-01-01'))) p;
select count(*) from pgq.publish_batch('at', '{2,3}', deliver_at => pgq.now() + interval '10 s');
select is(t.held('at', 'delayed'), 'one json 2 3', 'messages wait until deliver_at');
select is(t.take('at', n => 10), 'past',
    'a message with deliver_at in the past is delivered at once');
select t.advance('10 s');
select is(t.take('at', n => 10), 'one json 2 3', 'messages are delivered at deliver_at');
-- From PostgreSQL 17 on an interval may be infinite.
select pgq.create_queue('never');
select pgq.publish('never', '1', delay => 'infinity'::text::interval)
where current_setting('server_version_num')::int >= 170000;
select t.advance('1 year');
select is(t.take('never'), null, 'a message with an infinite delay is never delivered');
select is_empty('select * from pgq.check()',
    'a message with an infinite delay leaves nothing broken');
select * from finish();
rollback;
