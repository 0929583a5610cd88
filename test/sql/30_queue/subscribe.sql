-- Subscriptions: made, changed, ended; which topics and messages they receive.
begin;
select no_plan();
select t.at(now());

-- return values
select is(pgq.subscribe('audit', 'orders.*'), true, 'a new subscription is added');
select is(pgq.subscribe('audit', 'orders.*'), false, 'the same subscription is not added again');
select is(pgq.subscribe('audit', 'users.#'), true, 'a queue can subscribe to several patterns');
select is(pgq.subscribe('mail', 'orders.*'), true, 'several queues can subscribe to a pattern');
select is((select count(*) from pgq.queue), 2::bigint,
    'subscribe creates the queue of a new subscriber');
select is(pgq.unsubscribe('audit', 'orders.*'), true, 'a subscription is removed');
select is(pgq.unsubscribe('audit', 'orders.*'), false,
    'a removed subscription is not removed again');
select is(pgq.unsubscribe('audit', 'no.such'), false,
    'unsubscribe from an unknown pattern removes nothing');
select is(pgq.unsubscribe('nobody', 'orders.*'), false,
    'unsubscribe of an unknown queue removes nothing');
select is(pgq.unsubscribe_all('nobody'), 0, 'unsubscribe_all of an unknown queue removes nothing');
select is(pgq.unsubscribe_all('audit'), 1,
    'unsubscribe_all removes the only subscription of a queue');
select is(pgq.unsubscribe_all('audit'), 0,
    'unsubscribe_all of a queue without subscriptions removes nothing');
select pgq.subscribe('audit', p) from unnest('{a,b.*,c.#}'::text[]) p;
select is(pgq.unsubscribe_all('audit'), 3,
    'unsubscribe_all removes three subscriptions of a queue');
select is((select count(*) from pgq.binding), 1::bigint,
    'only the subscription of the other queue is left');
select is(pgq.unsubscribe_all('mail'), 1, 'unsubscribe_all removes the last subscription');
select is_empty('select * from pgq.subscription', 'no subscription is left');
select lives_ok($$select pgq.drop_queue('audit'), pgq.drop_queue('mail')$$,
    'the queues exist without subscriptions, and can be dropped');

-- Messages that a queue has received stay after unsubscribe.
select pgq.subscribe('keeper', 'kept');
select pgq.publish('kept', '"k"');
select pgq.unsubscribe('keeper', 'kept');
select throws_ok($$select pgq.publish('kept', '1')$$, 'QU005', null,
    'no queue receives the topic after unsubscribe');
select is(t.take('keeper'), 'k', 'a message received before unsubscribe is delivered');
select pgq.drop_queue('keeper', force => true);

-- a queue's own topic
select pgq.create_queue('own');
select is(pgq.unsubscribe_all('own'), 0,
    'unsubscribe_all does not remove the topic of a queue''s own name');
select isnt(pgq.publish('own', '1'), null,
    'a queue receives the topic of its own name after unsubscribe_all');
select is_empty($$select * from pgq.subscription where subscriber = 'own'$$,
    'the view subscription does not list the topic of a queue''s own name');
select is(pgq.subscribe('own', 'own'), false,
    'the topic of a queue''s own name is not added again');
select pgq.drop_queue('own', force => true);
select pgq.subscribe('late', 'elsewhere');
select throws_ok($$select pgq.publish('late', '1')$$, 'QU005', null,
    'a queue that subscribe created does not receive the topic of its own name');
select is(pgq.create_queue('late'), false, 'create_queue finds the queue that subscribe created');
select isnt(pgq.publish('late', '1'), null, 'create_queue adds the topic of the queue''s own name');
select pgq.drop_queue('late', force => true);

-- every row of the wildcard table
create temp table wildcard (pattern text, topic text, delivered boolean);
insert into wildcard values
    ('orders.*', 'orders.created', true), ('orders.*', 'orders', false),
    ('orders.*', 'orders.a.b', false),
    ('orders.#', 'orders', true), ('orders.#', 'orders.a', true), ('orders.#', 'orders.a.b', true),
    ('orders.#', 'order', false), ('orders.#', 'orders2', false),
    ('#', 'orders', true), ('#', 'a.b.c.d', true),
    ('#.error', 'error', true), ('#.error', 'a.b.error', true), ('#.error', 'errors', false),
    ('#.error', 'a.errors', false), ('#.error', 'aerror', false),
    ('a.#.b', 'a.b', true), ('a.#.b', 'a.x.b', true), ('a.#.b', 'a.x.y.b', true),
    ('a.#.b', 'a.x', false), ('a.#.b', 'ab', false),
    ('a.*.#', 'a.b', true), ('a.*.#', 'a.b.c', true), ('a.*.#', 'a', false),
    ('a.#.b.c', 'a.b.c', true), ('a.#.b.c', 'a.x.b.c', true), ('a.#.b.c', 'a.b.x.c', false),
    ('a.#.*', 'a.b', true), ('a.#.*', 'a.b.c', true), ('a.#.*', 'a', false),
    ('a+b.*', 'a+b.c', true), ('a+b.*', 'aab.c', false),
    ('*', 'orders', true), ('*', 'orders.a', false), ('*.*', 'a.b', true), ('*.*', 'a', false),
    ('#.#', 'a', true), ('Orders.*', 'orders.a', false), ('a.b', 'a.b', true),
    ('a.b', 'axb', false), ('a.b', 'a', false);
create function pg_temp.receives(pattern text, topic text, how text) returns boolean
language plpgsql as $$
declare
    v_got boolean;
begin
    perform pgq.subscribe('sub', receives.pattern);
    perform pgq.create_queue('all'), pgq.subscribe('all', '#');
    case how
        when 'publish' then perform pgq.publish(receives.topic, '"m"');
        when 'batch' then perform pgq.publish_batch(receives.topic, '{1,2}'::jsonb[]);
        when 'insert' then
            insert into pgq.message (topic, payload)
            values ('zzz.zzz', '1'), (receives.topic, '1'), ('yyy', '2');
    end case;
    v_got := exists (select from pgq.claim('sub', '{"msg.id": {"$gt": 0}}'::jsonb, 5) c
                     where c.topic = receives.topic);
    perform pgq.drop_queue('sub', true), pgq.drop_queue('all', true);
    return v_got;
end
$$;
select is(pg_temp.receives(pattern, topic, how), delivered,
    format('"%s" %s "%s" by %s', pattern,
           case when delivered then 'receives' else 'does not receive' end, topic, how))
from wildcard, unnest('{publish,batch,insert}'::text[]) how;

-- Invalid patterns and filters are refused by subscribe, and nothing changes.
select pgq.subscribe('good', 'fine', '{"type": "x"}');
create temp table before as
select (select jsonb_agg(to_jsonb(b) order by b.binding_id) from pgq.binding b) as bindings,
       (select count(*) from pgq.queue) as queues,
       (select sum(version) from pgq.routing) as version;
create function pg_temp.changed() returns boolean language sql as $$
    select b.bindings is distinct from
               (select jsonb_agg(to_jsonb(x) order by x.binding_id) from pgq.binding x)
        or b.queues <> (select count(*) from pgq.queue)
        or b.version <> (select sum(version) from pgq.routing)
    from before b $$;
select throws_ok(format('select pgq.subscribe(''new'', %L)', p), '22023', null,
    format('a pattern is refused: %s', coalesce('"' || left(p, 20) || '"', 'null')))
from unnest(array['ord*', '*ord', 'a.b#', '##', 'a..b', '.a', 'a.', '', ' ', 'a b', '*..*', '#.',
    '.#', 'a.**', repeat('a', 256), repeat('a.', 127) || '*.#', E'a\nb', null]) p;
select isnt(t.hint_of(format('select pgq.subscribe(''new'', %L)', p)), '',
    'there is a hint for the refused ' || p) from unnest(array['ord*', 'a..b', '', '.#']) p;
select throws_ok(format('select pgq.subscribe(%L, ''fine'')', s), '22023', null,
    format('a name of a subscriber is refused: %s', coalesce('"' || s || '"', 'null')))
from unnest(array['', 'a b', 'a.*', '#', null]) s;
select throws_ok(format('select pgq.subscribe(''new'', ''fine'', %L)', f), 'QU004', null,
    'a filter is refused: ' || f)
from unnest('{"[]","1","{\"a\": {\"$what\": 1}}","{\"$or\": []}","{\"a\": {\"$regex\": \"(\"}}"}'
    ::text[]) f;
select throws_ok($$select pgq.alter_subscription('good', 'fine', '{"a": {"$what": 1}}')$$, 'QU004',
    null, 'a filter is refused by alter_subscription too');
select throws_ok($$select pgq.alter_subscription('good', 'other', null)$$, '42704',
    '"good" is not subscribed to "other"',
    'a subscription that does not exist cannot be changed');
select matches(t.hint_of($$select pgq.alter_subscription('good', 'other', null)$$), 'subscribe',
    'the hint names subscribe');
select throws_ok($$select pgq.alter_subscription('nobody', 'fine', null)$$, 'QU001', null,
    'a subscription of a queue that does not exist cannot be changed');
select ok(not pg_temp.changed(), 'the refused calls have changed nothing');
select is(pgq.subscribe('good', 'fine', '{"type": "y"}'), false,
    'the same pattern with another filter is not added');
select ok(not pg_temp.changed(), 'the subscription keeps its filter');
select pgq.drop_queue('good', force => true);

-- one delivery per queue, however many bindings match
select pgq.create_queue('one');
select pgq.subscribe('one', 'one.#');
select pgq.subscribe('one', '#');
select pgq.subscribe('one', '*', '{"type": "x"}');
select pgq.subscribe('other', 'one');
select pgq.publish('one', '"a"', '{"type": "x"}');
select pgq.publish_batch('one', '{"\"b\"","\"c\""}',
    '{"{\"type\": \"x\"}","{}"}'::jsonb[]);
insert into pgq.message (topic, payload, headers) values
    ('one', '"d"', '{"type": "x"}'), ('one.two', '"e"', '{}');
select is(t.take('one', n => 10), 'a b c d e',
    'a queue receives a message once, even if several bindings match');
select is(t.take('other', n => 10), 'a b c d', 'another queue receives the same messages');
select is((select count(*) from pgq.message where topic like 'one%'), 5::bigint,
    'the queues share one copy of each message');
select is_empty('select * from pgq.check()', 'no queue holds a message twice');
select pgq.drop_queue('one', force => true), pgq.drop_queue('other', force => true);

-- filters are evaluated at publish
select pgq.subscribe('big', 'sales.#', '{"payload.total": {"$gt": 100}}');
select pgq.subscribe('eu', 'sales.#', '{"region": "eu", "msg.topic": {"$prefix": "sales.new"}}');
select pgq.subscribe('rest', 'sales.#', '{"$nor": [{"region": "eu"}]}');
create temp table sale (topic text, total int, region text);
insert into sale values ('sales.new', 50, 'eu'), ('sales.new', 150, 'us'), ('sales.old', 500, 'eu'),
    ('sales', 10, null);
select pgq.publish(topic, jsonb_build_object('total', total),
    jsonb_strip_nulls(jsonb_build_object('region', region))) from sale order by total;
insert into pgq.message (topic, payload, headers)
select topic, jsonb_build_object('total', total),
    jsonb_strip_nulls(jsonb_build_object('region', region)) from sale order by total;
create function pg_temp.totals(queue text) returns text language sql as $$
    select string_agg(payload ->> 'total', ' ' order by id) from pgq.claim(queue, n => 100) $$;
select is(pg_temp.totals('big'), '150 500 150 500',
    'a subscription can have a filter on the payload');
select is(pg_temp.totals('eu'), '50 50',
    'a subscription can have a filter on a header and the topic');
select is(pg_temp.totals('rest'), '10 150 10 150',
    'a subscription can have a filter that excludes a header');
select is((select count(*) from pgq.ready), 0::bigint,
    'a message that the filter refuses does not enter the queue');
select lives_ok($$select pgq.publish('sales.x', '{"total": 1}', '{"region": "eu"}')$$,
    'a message that all filters refuse is published without an error');

-- content-based routing by a nested field of the payload
select pgq.subscribe('nested', 'sales.#', '{"payload.recipient.region": "north"}');
select pgq.publish('sales.n', '{"recipient": {"region": "north"}, "total": 1}', '{"region": "eu"}'),
       pgq.publish('sales.n', '{"recipient": {"region": "south"}, "total": 2}', '{"region": "eu"}');
select is(pg_temp.totals('nested'), '1', 'a subscription can have a filter on a nested field');

-- A changed filter applies from the next publish on.
select pgq.subscribe('changing', 'news', '{"type": "a"}');
select pgq.subscribe('always', 'news');
select pgq.publish('news', '"1"', '{"type": "a"}'), pgq.publish('news', '"2"', '{"type": "b"}');
select lives_ok($$select pgq.alter_subscription('changing', 'news', '{"type": "b"}')$$,
    'the filter of a subscription can be changed');
select pgq.publish('news', '"3"', '{"type": "a"}'), pgq.publish('news', '"4"', '{"type": "b"}');
select is(t.take('changing', n => 9), '1 4',
    'a changed filter applies to new messages, and earlier messages stay');
select pgq.alter_subscription('changing', 'news', null);
select pgq.publish('news', '"5"', '{"type": "a"}'), pgq.publish('news', '"6"');
select is(t.take('changing', n => 9), '5 6', 'the filter of a subscription can be removed');
select is((select filter from pgq.subscription where subscriber = 'changing'), null,
    'the view subscription shows that there is no filter');
select pgq.alter_subscription('changing', 'news', '{}');
select pgq.publish('news', '"7"');
select is(t.take('changing', n => 9), '7', 'an empty filter accepts all messages');
select pgq.alter_subscription('changing', 'news', '{"type": "a"}');
select pgq.publish_batch('news', '{"\"8\"","\"9\""}', '{"{\"type\": \"a\"}","{}"}'::jsonb[]);
select is(t.take('changing', n => 9), '8', 'a changed filter applies to publish_batch, too');
select is((select filter from pgq.subscription where subscriber = 'changing'), '{"type": "a"}',
    'the view subscription shows the filter');
select pgq.create_queue('mine');
select pgq.publish('mine', '"0"');
select pgq.alter_subscription('mine', 'mine', '{"type": "a"}');
select pgq.publish('mine', '"1"', '{"type": "a"}'), pgq.publish('mine', '"2"');
select is(t.take('mine', n => 9), '0 1', 'the topic of a queue''s own name can have a filter too');

-- fan-out stores a message once: small rows, no copies
select pgq.subscribe('fan' || i, 'fan.#') from generate_series(1, 20) i;
select pgq.subscribe('fan' || i, 'fan.#', '{"type": "never"}') from generate_series(21, 30) i;
create temp table sizes as select (select count(*) from pgq.message) as messages,
    (select count(*) from pgq.ready) as ready;
select pgq.publish('fan.out', '"f"');
select is((select count(*) from pgq.message) - messages, 1::bigint,
    'a message for 20 queues is one row')
from sizes;
select is((select count(*) from pgq.ready) - ready, 20::bigint,
    'a message for 20 queues adds one ready row per queue')
from sizes;
select is((select count(*) from pgq.publish_batch('fan.out', array_fill('1'::jsonb, array[100]))),
    100::bigint, 'a batch of 100 messages is published');
select is((select count(*) from pgq.message) - messages, 101::bigint,
    'a batch for 20 queues is stored once')
from sizes;
select is((select count(*) from pgq.ready) - ready, 40::bigint,
    'a batch adds one ready row per queue, not one per message') from sizes;
select is((select max(pg_column_size(r.*)) < 200 from pgq.ready r), true,
    'every ready row has less than 200 bytes');
select is((select array_agg(distinct (select sum(size) from pgq.ready r join pgq.queue q
                                      using (queue_id) where q.name = 'fan' || i))
           from generate_series(1, 20) i), '{101}'::bigint[], 'every queue holds all 101 messages');

-- An archive stores the messages of its topics and delivers nothing.
select pgq.create_queue('attic', mode => 'archive');
select pgq.subscribe('attic', 'old.#');
select isnt(pgq.publish('old.hat', '"h"'), null, 'a topic that only an archive receives is stored');
select pgq.publish_batch('old.hat', '{"1","2"}');
select is((select count(*) from pgq.message where topic = 'old.hat'), 3::bigint,
    'an archive stores every message of its topic');
select throws_ok($$select pgq.claim('attic')$$, '0A000', null,
    'claiming from an archive is an error');
select is_empty($$select 1 from pgq.ready r join pgq.queue q using (queue_id)
    where q.name = 'attic'$$, 'an archive has no ready rows');
select pgq.create_queue('old.work', max_attempts => 1);
select pgq.publish('old.work', '"w"') as work \gset
select count(pgq.nack(lease_id, error => 'broken')) from pgq.claim('old.work');
select is(pgq.discard('old.work'), 1, 'a message that fails in another queue is discarded');
select results_eq(format('select topic, payload from pgq.read_log(%1$s, %1$s + 1)', :work),
    $$values ('old.work', '"w"'::jsonb)$$,
    'the log still has the discarded message of an archived topic');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
