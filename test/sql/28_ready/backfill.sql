-- A subscription that begins in the past: from a time or a message on.
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
select is(pgq.subscribe('now', 'log'), true, 'a subscription starts now, unless told otherwise');
select is(t.peek('now'), null, 'it has nothing');
select is(pgq.subscribe('since', 'log', since => now() - interval '5 min'), true,
    'a subscription can start at a time');
select is(t.peek('since'), 'e f g h i', 'it has what was published since, that moment included');
select is(pgq.subscribe('from', 'log', since_id => :d), true, 'or at a message');
select is(t.peek('from'), 'd e f g h i', 'that message included');
select pgq.subscribe('filtered', '#', '{"even": true}', since_id => 0);
select is(t.peek('filtered'), 'b d f h', 'a filter chooses from the past too');
select pgq.subscribe('both', '*', since => now() - interval '5 min', since_id => :d + 3);
select is(t.peek('both'), 'g h i', 'a time and a message: whatever is later');
select pgq.subscribe('future', 'log', since => now() + interval '1 day');
select pgq.subscribe('beyond', 'log', since_id => :i + 1000);
select is(t.peek('future') is null and t.peek('beyond') is null, true,
    'a start in the future finds nothing in the log');
select pgq.subscribe('else', 'elsewhere', since_id => 0);
select is(t.peek('else'), null, 'other topics are not for it');
select pgq.publish('log', '"j"');
select is(array[t.peek('now'), t.peek('since'), t.peek('from'), t.peek('both'), t.peek('future')],
    '{j,"e f g h i j","d e f g h i j","g h i j",j}'::text[],
    'all of them go on with what is published from now on');
select is(pgq.subscribe('now', 'log', since_id => 0), false, 'what is there is not begun anew');
select is(t.peek('now'), 'j', 'and gets nothing from the past');
select pgq.publish('log', '"k"', priority => 5);
select is(t.take('since', n => 20), 'k e f g h i j', 'the past comes in order, by priority');
select is((select array_agg(distinct attempt) from pgq.lease l join pgq.queue q using (queue_id)
           where q.name = 'since'), '{1}'::int[], 'as a first delivery');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- what is delayed, expired, or only stored
select pgq.create_queue('log');
insert into pgq.message (topic, payload, deliver_at, expires_at) values
    ('log', '"soon"', now() + interval '10 s', null), ('log', '"ready"', null, null),
    ('log', '"was"', now() - interval '10 s', null),
    ('log', '"gone"', null, now() - interval '1 s'),
    ('log', '"going"', null, now() + interval '5 s'), ('log', '"stored"', 'infinity', null);
select pgq.subscribe('late', 'log', since_id => 0);
select is(t.held('late', 'ready'), 'ready was going', 'what can be delivered is ready');
select is(t.held('late', 'delayed'), 'soon', 'what is delayed stays delayed');
select is((select count(*) from pgq.message_state where queue = 'late'), 4::bigint,
    'what has expired, and what is only stored, is not for it');
select t.advance('6 s');
select is(t.take('late', n => 9), 'ready was', 'what expires after that is not delivered');
select is(t.held('late', 'dead'), 'going', 'but a dead letter');
select t.advance('6 s');
select is(t.take('late', n => 9), 'soon', 'what was delayed comes when it is due');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- a queue that has received some of it by another binding
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
    'a queue gets a wider pattern, backfilled');
select is(t.held('old', 'ready'), 'e f', 'it gets what it has not had');
select is(array[t.held('old', 'leased'), t.held('old', 'dead'), t.held('old', 'delayed')],
    '{c,b,d}', 'what it holds in any way it does not get again, nor what it has finished');
select is_empty('select * from pgq.check()', 'no message is anywhere twice');
select is((select count(*) from pgq.ready r join pgq.queue q using (queue_id)
           where q.name = 'old'), 1::bigint, 'what belongs together is one row');

-- what its binding would receive today, but did not when it was published
select pgq.alter_subscription('old', '#', '{"type": "z"}');
select pgq.publish('log', '"g"', '{"type": "w"}');
select pgq.alter_subscription('old', '#', '{"type": {"$in": ["w", "z"]}}');
select pgq.subscribe('old', 'log.#', '{"type": "w"}', since_id => 0);
select is(t.held('old', 'ready'), 'e f g',
    'a message that another binding has refused at the time is not missed');
select is_empty('select * from pgq.check()', 'and none is anywhere twice');
select pgq.alter_queue('old', journal => 'failures');
select pgq.subscribe('old', '*.#', since_id => 0);
select is(t.held('old', 'ready'), 'e f g',
    'without a record of acknowledgements, what a binding matches counts as delivered by it');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- lanes and priorities of the past
select pgq.create_queue('log');
insert into pgq.message (topic, payload, headers, priority)
select 'log', to_jsonb(i), jsonb_build_object('type', i % 3), i % 2
from generate_series(1, 300) i;
select pgq.create_queue('laned', lane_keys => '{type}');
select pgq.subscribe('laned', 'log', since_id => 0);
select is((select sum(size) from pgq.ready r join pgq.queue q using (queue_id)
           where q.name = 'laned'), 300::bigint, 'a large past is taken over as a whole');
select is((select count(distinct lane_id) from pgq.ready r join pgq.queue q using (queue_id)
           where q.name = 'laned'), 3::bigint, 'and sorted into lanes');
select is((select string_agg(c.payload::text, ' ' order by c.i)
           from pgq.claim('laned', '{"type": 2}', 4) with ordinality c (lease_id, id, topic,
               priority, attempt, headers, payload, sender, recipient, reply_to, correlation_id,
               group_key, published_at, expires_at, lease_until, i)),
    '5 11 17 23', 'a filter finds its lane, in order');
select is_empty('select * from pgq.check()', 'all of it is as it should be');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- an archive has its past in the log already
select pgq.create_queue('log'), pgq.create_queue('attic', mode => 'archive');
select pgq.publish('log', '"a"'), pgq.publish('log', '"b"', delay => '1 h');
select is(pgq.subscribe('attic', '#', since_id => 0), true, 'an archive can be subscribed');
select is_empty($$select 1 from pgq.message_state where queue = 'attic'$$,
    'it has nothing to deliver');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- groups come in order, whatever is different about their messages
select pgq.create_queue('log');
insert into pgq.message (topic, payload, group_key, priority, deliver_at)
values ('log', '"a1"', 'a', 0, now() + interval '1 min'), ('log', '"a2"', 'a', 9, null),
       ('log', '"b1"', 'b', 0, null), ('log', '"a3"', 'a', 0, null), ('log', '"b2"', 'b', 5, null),
       ('log', '"c1"', 'c', 0, null), ('log', '"c2"', 'c', 0, now() + interval '1 min');
select pgq.subscribe('grouped', 'log', since_id => 0);
select is(t.held('grouped', 'delayed'), 'a1', 'the first of a group is its head, though delayed');
select is(t.held('grouped', 'waiting'), 'a2 a3 b2 c2', 'the others stand in line');
select is(t.held('grouped', 'ready'), 'b1 c1', 'and the heads of the others are ready');
select is_empty('select * from pgq.check()', 'all groups have one head');
select pgq.drop_queue(name, force => true) from pgq.queue;
select t.damage('delete from pgq.message');

-- ids may have gaps: a sequence that was set forward, for example
select pgq.create_queue('log');
select pgq.publish('log', '"before"');
select setval('pgq.message_id', 500000000000000);
select pgq.publish('log', '"after"');
set local statement_timeout = '20s';
select is(pgq.subscribe('gap', 'log', since_id => 0), true, 'a gap of any size is no obstacle');
select is(t.held('gap', 'ready'), 'before after', 'and both sides of it are found');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
