-- Backfill: a subscription that begins in the past, at a time or at a message.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('log');

-- by time and by id
insert into pgq.message (topic, payload, published_at, headers)
select 'log', to_jsonb(chr(96 + i)), now() - (10 - i) * interval '1 min',
       jsonb_build_object('even', i % 2 = 0)
from generate_series(1, 9) i;
select max(id) filter (where payload = '"d"') as d, max(id) as i from pgq.message \gset
select is(pgq.subscribe('now', 'log'), true, 'a subscription starts now by default');
select is(t.peek('now'), null, 'a subscription that starts now has no earlier messages');
select is(pgq.subscribe('since', 'log', since => now() - interval '5 min'), true,
    'a subscription can start at a time');
select is(t.peek('since'), 'e f g h i',
    'a subscription has the messages from its start time on, including that time');
select is(pgq.subscribe('from', 'log', since_id => :d), true,
    'a subscription can start at a message');
select is(t.peek('from'), 'd e f g h i',
    'a subscription has the messages from its first message on, including that message');
select pgq.subscribe('filtered', '#', '{"even": true}', since_id => 0);
select is(t.peek('filtered'), 'b d f h', 'a filter applies to earlier messages, too');
select pgq.subscribe('both', '*', since => now() - interval '5 min', since_id => :d + 3);
select is(t.peek('both'), 'g h i',
    'the later start counts if a time and a message are given');
select pgq.subscribe('future', 'log', since => now() + interval '1 day');
select pgq.subscribe('beyond', 'log', since_id => :i + 1000);
select is(t.peek('future') is null and t.peek('beyond') is null, true,
    'a start in the future finds nothing in the log');
select pgq.subscribe('else', 'elsewhere', since_id => 0);
select is(t.peek('else'), null, 'a backfill ignores other topics');
select pgq.publish('log', '"j"');
select is(array[t.peek('now'), t.peek('since'), t.peek('from'), t.peek('both'), t.peek('future')],
    '{j,"e f g h i j","d e f g h i j","g h i j",j}'::text[],
    'every subscription receives messages that are published after the backfill');
select is(pgq.subscribe('now', 'log', since_id => 0), false,
    'an existing subscription is not started again');
select is(t.peek('now'), 'j', 'an existing subscription gets no earlier messages');
select pgq.publish('log', '"k"', priority => 5);
select is(t.take('since', n => 20), 'k e f g h i j',
    'a backfill is delivered in order, by priority');
select is((select array_agg(distinct attempt) from pgq.lease l join pgq.queue q using (queue_id)
           where q.name = 'since'), '{1}'::int[],
    'a backfilled message is delivered as its first attempt');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- messages that are delayed, expired, or only stored
select pgq.create_queue('log');
insert into pgq.message (topic, payload, deliver_at, expires_at) values
    ('log', '"soon"', now() + interval '10 s', null), ('log', '"ready"', null, null),
    ('log', '"was"', now() - interval '10 s', null),
    ('log', '"gone"', null, now() - interval '1 s'),
    ('log', '"going"', null, now() + interval '5 s'), ('log', '"stored"', 'infinity', null);
select pgq.subscribe('late', 'log', since_id => 0);
select is(t.held('late', 'ready'), 'ready was going',
    'a backfill makes messages ready that can be delivered');
select is(t.held('late', 'delayed'), 'soon', 'a backfill keeps a delayed message delayed');
select is((select count(*) from pgq.message_state where queue = 'late'), 4::bigint,
    'a backfill ignores messages that have expired or are only stored');
select t.advance('6 s');
select is(t.take('late', n => 9), 'ready was',
    'a message that expires after the backfill is not delivered');
select is(t.held('late', 'dead'), 'going',
    'a message that expires after the backfill is a dead letter');
select t.advance('6 s');
select is(t.take('late', n => 9), 'soon',
    'a delayed message of a backfill is delivered when it is due');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- A queue that has received some of the messages by another binding.
select pgq.create_queue('log', max_attempts => 1, lane_keys => '{type}');
select pgq.create_queue('old', max_attempts => 1, backoff => '0');
select pgq.subscribe('old', 'log', '{"type": "x"}');
update pgq.binding set created_at = now() - interval '1 h';
select pgq.publish('log', to_jsonb(p), '{"type": "x"}') from unnest('{a,b,c}'::text[]) p;
select pgq.publish('log', '"d"', '{"type": "x"}', delay => '1 h');
select pgq.publish('log', to_jsonb(p), '{"type": "y"}') from unnest('{e,f}'::text[]) p;
select max(lease_id) as lease from pgq.claim('old') \gset
select pgq.ack(:lease);
select max(lease_id) as lease from pgq.claim('old') \gset
select pgq.bury(:lease);
select max(lease_id) as lease from pgq.claim('old') \gset
select is(pgq.subscribe('old', '#', since_id => 0), true,
    'a queue can subscribe to a wider pattern with a backfill');
select is(t.held('old', 'ready'), 'e f',
    'a backfill adds the messages that the queue has not received');
select is(array[t.held('old', 'leased'), t.held('old', 'dead'), t.held('old', 'delayed')],
    '{c,b,d}', 'a backfill adds no message again that is leased, dead, delayed or finished');
select is_empty('select * from pgq.check()', 'the queue holds no message twice');
select is((select count(*) from pgq.ready r join pgq.queue q using (queue_id)
           where q.name = 'old'), 1::bigint,
    'backfilled messages share one ready row');

-- Messages that a binding would receive today, but did not receive when they were published.
select pgq.alter_subscription('old', '#', '{"type": "z"}');
select pgq.publish('log', '"g"', '{"type": "w"}');
select pgq.alter_subscription('old', '#', '{"type": {"$in": ["w", "z"]}}');
select pgq.subscribe('old', 'log.#', '{"type": "w"}', since_id => 0);
select is(t.held('old', 'ready'), 'e f g',
    'a backfill adds a message that another binding refused when it was published');
select is_empty('select * from pgq.check()',
    'the queue holds no message twice after another backfill');
select pgq.alter_queue('old', journal => 'failures');
select pgq.subscribe('old', '*.#', since_id => 0);
select is(t.held('old', 'ready'), 'e f g',
    'without acks in the audit log, a message that a binding matches counts as delivered');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- lanes and priorities of a backfill
select pgq.create_queue('log');
insert into pgq.message (topic, payload, headers, priority)
select 'log', to_jsonb(i), jsonb_build_object('type', i % 3), i % 2
from generate_series(1, 300) i;
select pgq.create_queue('laned', lane_keys => '{type}');
select pgq.subscribe('laned', 'log', since_id => 0);
select is((select sum(size) from pgq.ready r join pgq.queue q using (queue_id)
           where q.name = 'laned'), 300::bigint,
    'a backfill of 300 messages is complete');
select is((select count(distinct lane_id) from pgq.ready r join pgq.queue q using (queue_id)
           where q.name = 'laned'), 3::bigint,
    'a backfill sorts messages into lanes');
select is((select string_agg(c.payload::text, ' ' order by c.i)
           from pgq.claim('laned', '{"type": 2}', 4) with ordinality c (lease_id, id, topic,
               priority, attempt, headers, payload, sender, recipient, reply_to, correlation_id,
               group_key, published_at, expires_at, lease_until, i)),
    '5 11 17 23', 'a filter finds the messages of its lane in order');
select is_empty('select * from pgq.check()', 'nothing is broken after a backfill with lanes');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- An archive has earlier messages in the log already.
select pgq.create_queue('log'), pgq.create_queue('attic', mode => 'archive');
select pgq.publish('log', '"a"'), pgq.publish('log', '"b"', delay => '1 h');
select is(pgq.subscribe('attic', '#', since_id => 0), true,
    'an archive can subscribe with a backfill');
select is_empty($$select 1 from pgq.message_state where queue = 'attic'$$,
    'an archive has nothing to deliver after a backfill');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- A group is delivered in order, whatever the priorities and delays of its messages.
select pgq.create_queue('log');
insert into pgq.message (topic, payload, group_key, priority, deliver_at)
values ('log', '"a1"', 'a', 0, now() + interval '1 min'), ('log', '"a2"', 'a', 9, null),
       ('log', '"b1"', 'b', 0, null), ('log', '"a3"', 'a', 0, null), ('log', '"b2"', 'b', 5, null),
       ('log', '"c1"', 'c', 0, null), ('log', '"c2"', 'c', 0, now() + interval '1 min');
select pgq.subscribe('grouped', 'log', since_id => 0);
select is(t.held('grouped', 'delayed'), 'a1',
    'the first message of a group is its head, even if it is delayed');
select is(t.held('grouped', 'waiting'), 'a2 a3 b2 c2',
    'the other messages of a group wait');
select is(t.held('grouped', 'ready'), 'b1 c1', 'the heads of the other groups are ready');
select is_empty('select * from pgq.check()', 'every group has one head');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- Ids may have gaps, for example after the sequence was set forward.
select pgq.create_queue('log');
select pgq.publish('log', '"before"');
select setval('pgq.message_id', 500000000000000);
select pgq.publish('log', '"after"');
set local statement_timeout = '20s';
select is(pgq.subscribe('gap', 'log', since_id => 0), true,
    'a backfill across a very large gap of ids ends within the timeout');
select is(t.held('gap', 'ready'), 'before after',
    'a backfill finds the messages on both sides of a gap');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
