-- Operations on a lease: ack, nack, bury, extend, leased; and peek, which claims nothing.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', lease => '30 s', max_attempts => 3, backoff => '8 s',
    max_backoff => '20 s');

-- ack
insert into pgq.message (topic, payload) select 'work', to_jsonb(i) from generate_series(1, 10) i;
create temp table got as select * from pgq.claim('work', n => 10);
select max(lease_id) as lease, min(id) as first from got \gset
select is(pgq.ack(:lease, array[:first, :first + 2]), 2, 'some messages are acknowledged');
select is(t.held('work', 'leased'), '2 4 5 6 7 8 9 10', 'the others are still held');
select is(pgq.ack(:lease, array[:first + 1, :first + 1, null]), 1,
    'naming a message twice acknowledges it once');
select throws_ok(format('select pgq.ack(%s, array[%s, %s])', :lease, :first + 3, :first), 'QU003',
    null, 'a message that was acknowledged before is an error');
select is(t.held('work', 'leased'), '4 5 6 7 8 9 10', 'and then nothing is acknowledged');
select throws_ok(format('select pgq.ack(%s, array[%s])', :lease, 999999999), 'QU003', null,
    'an unknown message is an error');
select is(pgq.ack(:lease, '{}'), 0, 'no ids are nothing');
select is(pgq.ack(:lease), 7, 'without ids everything left is acknowledged');
select is(t.held('work', 'leased'), null, 'nothing is held');
select throws_ok(format('select pgq.ack(%s)', :lease), 'QU003', null,
    'a second acknowledgement is an error');
select throws_ok('select pgq.ack(null)', 'QU003', null, 'null is no lease');
select throws_ok('select pgq.ack(12345678901234)', 'QU003', 'lease 12345678901234 is lost',
    'a wrong token is an error');
select matches(t.hint_of('select pgq.ack(12345678901234)'), 'extend', 'that tells what to do');
select is((select array_agg(size order by size) from pgq.journal where event = 'ack'),
    '{1,2,7}'::int[], 'the journal has a row for each call');
select is((select count(*) from pgq.message where topic = 'work'), 10::bigint,
    'the log still has the messages');
select pgq.alter_queue('work', journal => 'failures');
select pgq.publish('work', '"quiet"');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.ack(:lease);
select is((select sum(size) from pgq.journal where event = 'ack'), 10::bigint,
    'a queue may leave acknowledgements out of the journal');
select pgq.publish('work', '"quiet"');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.alter_queue('work', journal => 'all');
select pgq.ack(:lease);
select is((select sum(size) from pgq.journal where event = 'ack'), 10::bigint,
    'as it was when they were claimed');

-- a claim that acknowledges the one before
insert into pgq.message (topic, payload) select 'work', to_jsonb(i) from generate_series(1, 4) i;
select max(lease_id) as lease from pgq.claim('work', n => 2) \gset
create temp table next as select * from pgq.claim('work', n => 1, done => :lease);
select results_eq('select payload::text from next', array['3'], 'the next message is claimed');
select is(t.held('work', 'leased'), '3', 'and those before it are done');
select throws_ok(format('select pgq.claim(''work'', done => %s)', :lease), 'QU003', null,
    'a lease that is lost is an error');
select is(t.held('work', 'ready'), '4', 'and then nothing is claimed');
select throws_ok(format('select pgq.claim(''work'', n => 0, done => %s)', max(lease_id)), '22023',
    null, 'a claim that is refused') from next;
select is(t.held('work', 'leased'), '3', 'acknowledges nothing');
select throws_ok(format('select pgq.claim(''nowhere'', done => %s)', max(lease_id)), 'QU001',
    null, 'nor does one from a queue that is not there') from next;
select is(t.held('work', 'leased'), '3', 'which changes nothing');
select max(lease_id) as lease from next \gset
select max(lease_id) as last from pgq.claim('work', n => 5, done => :lease) \gset
select pgq.pause('work');
select is((select count(*) from pgq.claim('work', done => :last)), 0::bigint,
    'a claim that finds nothing');
select is(t.held('work', 'leased'), null, 'acknowledges all the same');
select pgq.resume('work');
select is((select sum(size) from pgq.journal where event = 'ack'), 14::bigint,
    'and the journal has it');

-- nack
select pgq.publish('work', '"n"');
select max(lease_id) as lease from pgq.claim('work') \gset
select is(pgq.nack(:lease, error => 'out of paper'), 1, 'a message is refused');
select is(t.held('work', 'retrying'), 'n', 'and waits for its next attempt');
select ok((select due_at between pgq.now() + interval '4 s' and pgq.now() + interval '8 s'
           from pgq.scheduled), 'for half to all of the backoff');
select throws_ok(format('select pgq.nack(%s)', :lease), 'QU003', null,
    'a second refusal is an error');
select is(t.take('work'), null, 'it does not come at once');
select t.advance('8 s');
create temp table second as select * from pgq.claim('work');
select is((select attempt from second), 2, 'its next attempt is the second');
select max(lease_id) as lease from second \gset
select pgq.nack(:lease, error => 'still out of paper');
select ok((select due_at between pgq.now() + interval '8 s' and pgq.now() + interval '16 s'
           from pgq.scheduled), 'the backoff doubles');
select t.advance('16 s');
select max(lease_id) as lease from pgq.claim('work') \gset
select is(pgq.nack(:lease, error => 'no paper', details => '{"tray": 2}'), 1,
    'the last attempt is refused like any other');
select is(t.held('work', 'dead'), 'n', 'and makes a dead letter');
select is((select to_jsonb(d) - '{dead_letter_id,message_id,queue_id,failed_at,published_at,
               failures,holder,client}'::text[] from pgq.dead_letter d),
    '{"reason": "processing_error", "error": "no paper", "details": {"tray": 2}, "attempts": 3,
      "replay_count": 0, "replayed_at": null, "topic": "work", "priority": 0, "headers": {},
      "payload": "n", "sender": null, "recipient": null, "reply_to": null, "correlation_id": null,
      "group_key": null, "dedup_key": null, "deliver_at": null, "expires_at": null}',
    'the dead letter is the whole message and why');
select is((select jsonb_path_query_array(failures, '$[*].error') from pgq.dead_letter),
    '["out of paper", "still out of paper", "no paper"]', 'it tells of every attempt');
select is((select jsonb_path_query_array(failures, '$[*].attempt') from pgq.dead_letter),
    '[1, 2, 3]', 'in order');
select is((select holder from pgq.dead_letter), current_setting('application_name'),
    'and who held it last');
select is((select failures -> 0 ->> 'holder' from pgq.dead_letter),
    current_setting('application_name'), 'and who held it first');
select is((select failed_at from pgq.dead_letter), pgq.now(), 'and when it failed');
select throws_ok($$select pgq.nack(1, delay => '-1 s')$$, '22023', null,
    'a negative delay is refused');

-- delays
insert into pgq.message (topic, payload)
select 'work', to_jsonb('d' || i) from generate_series(1, 4) i;
select max(lease_id) as lease, min(id) as first from pgq.claim('work', n => 4) \gset
select is(pgq.nack(:lease, array[:first], delay => '0'), 1, 'part of a lease is refused');
select is(t.take('work', n => 9), 'd1', 'without delay it is ready at once');
select is(pgq.nack(:lease, array[:first + 1], delay => '90 min'), 1, 'a delay can be given');
select is((select due_at from pgq.scheduled), pgq.now() + interval '90 min',
    'it is taken as it is, without jitter and limit');
select throws_ok(format('select pgq.nack(%s, array[%s, %s])', :lease, :first + 2, :first + 1),
    'QU003', null, 'refusing what is not held is an error');
select is(t.held('work', 'leased'), 'd1 d3 d4', 'and then nothing is refused');
select pgq.ack(:lease);
select pgq.drop_queue('work', force => true);

-- bury
select pgq.create_queue('work', lease => '30 s', max_attempts => 3);
select pgq.publish('work', '"bad"', '{"k": 1}', sender => 's', correlation_id => 'c',
    dedup_key => 'dk');
select pgq.publish('work', '"good"');
select max(lease_id) as lease, min(id) as first from pgq.claim('work', n => 2) \gset
select is(pgq.bury(:lease, array[:first], 'not JSON', '{"at": 7}'), 1, 'one message is buried');
select is((select array[reason, error, details::text, attempts::text, headers::text, sender,
                        correlation_id, dedup_key] from pgq.dead_letter),
    '{rejected,not JSON,"{\"at\": 7}",1,"{\"k\": 1}",s,c,dk}'::text[],
    'it is a dead letter at its first attempt');
select is(t.held('work', 'leased'), 'good', 'the other is still held');
select throws_ok(format('select pgq.bury(%s, array[%s])', :lease, :first), 'QU003', null,
    'burying it twice is an error');
select is(pgq.bury(:lease), 1, 'without ids everything left is buried');
select throws_ok(format('select pgq.bury(%s)', :lease), 'QU003', null, 'then the lease is lost');

-- reasons
select pgq.publish('work', '"plain"');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.nack(:lease, delay => '0');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.nack(:lease, delay => '0');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.nack(:lease, delay => '0');
select is((select reason from pgq.dead_letter where payload = '"plain"'), 'max_attempts',
    'refused too often and never with an error, it has used up its attempts');
select is((select jsonb_path_query_array(failures, '$[*].outcome') from pgq.dead_letter
           where payload = '"plain"'), '["nack", "nack", "nack"]', 'each attempt is there');
select pgq.drop_queue('work', force => true);

-- extend
select pgq.create_queue('work', lease => '30 s');
select pgq.publish('work', '"e"');
select max(lease_id) as lease from pgq.claim('work') \gset
select t.advance('20 s');
select is(pgq.extend(:lease), pgq.now() + interval '30 s', 'a lease is extended by the queue''s');
select t.advance('29 s');
select is(t.take('work'), null, 'and holds its messages for longer');
select is(pgq.extend(:lease, '1 h'), pgq.now() + interval '1 h', 'or for as long as one asks');
select is(pgq.extend(:lease, '1 min'), pgq.now() + interval '1 h', 'never for a shorter time');
select t.advance('59 min');
select is(t.take('work'), null, 'however long');
select is((select lease_until from pgq.leased(:lease)), pgq.now() + interval '1 min',
    'it knows how long it holds');
select t.advance('2 min');
select is(pgq.extend(:lease, '10 s'), pgq.now() + interval '10 s',
    'an expired lease that nobody took back can be extended');
select t.advance('11 s');
select is(t.take('work'), 'e', 'one that was taken back');
select throws_ok(format('select pgq.extend(%s)', :lease), 'QU003', null, 'cannot');
select throws_ok(format('select pgq.extend(%s, ''0'')', :lease), '22023', null,
    'a lease of no time is refused');
select throws_ok('select pgq.extend(null)', 'QU003', null, 'null is no lease');
select isnt(t.hint_of('select pgq.extend(1)'), '', 'there is a hint');
select pgq.drop_queue('work', force => true);

-- leased
select pgq.create_queue('work', lease => '30 s');
insert into pgq.message (topic, payload, priority, headers)
select 'work', to_jsonb(i), i % 2, '{"h": 1}' from generate_series(1, 5) i;
create temp table claimed as select * from pgq.claim('work', n => 5);
select max(lease_id) as lease, min(id) as first from claimed \gset
select results_eq(format('select * from pgq.leased(%s)', :lease), 'select * from claimed',
    'a lease can be read again as it was claimed');
select pgq.ack(:lease, array[:first, :first + 1]);
select is((select count(*) from pgq.leased(:lease)), 3::bigint, 'without what has left it');
select throws_ok('select pgq.leased(77)', 'QU003', null, 'a lost lease cannot be read');
select throws_ok('select pgq.leased(null)', 'QU003', null, 'nor one that is null');

-- peek
insert into pgq.message (topic, payload, priority) values
    ('work', '"b"', 0), ('work', '"a"', 1), ('work', '"c"', 0);
select pgq.publish('work', '"later"', delay => '1 min');
select is(t.peek('work'), 'a b c', 'peek shows what a claim would take, in order');
select is(t.peek('work', n => 2), 'a b', 'as many as asked for');
select is(t.peek('work', '{"msg": {"priority": 0}}'), 'b c', 'with a filter what matches');
select is(t.peek('work', '{}'), 'a b c', 'an empty filter is none');
select is(t.peek('work'), 'a b c', 'and it takes nothing');
select is(t.held('work', 'ready'), 'b a c', 'all are still ready');
select throws_ok(format('select pgq.peek(%s)', x), code, null, 'peek is refused: ' || x)
from (values ($$'nowhere'$$, 'QU001'), ($$'work', n => 0$$, '22023'),
             ($$'work', n => null$$, '22023'), ($$'work', '{"$what": 1}'$$, 'QU004')) r (x, code);
select count(*) from pgq.publish_batch('work', array_fill('"x"'::jsonb, array[3000]));
select is((select count(*) from pgq.peek('work', n => 2500)), 2500::bigint, 'peek can show many');
select is((select count(*) from pgq.peek('work', n => 100000)), 3003::bigint, 'or all');

-- what is no token at all
select publish as id from pgq.publish('work', '1') \gset
select throws_ok(format('select pgq.%s(%s)', v, :id), 'QU003', format('%s is not a lease id', :id),
    v || ' of a message id says what it is')
from unnest('{ack,nack,bury,extend,release}'::text[]) v;
select throws_ok(format('select pgq.ack(%s)', x), 'QU003', x || ' is not a lease id',
    'so does ' || x) from unnest(array['100000000000', 'null']) x;
select matches(t.hint_of(format('select pgq.ack(%s)', :id)), 'lease_id', 'with a hint');

-- a queue can limit how long a lease lasts
select pgq.create_queue('limited', lease => '10 s', max_lease => '25 s');
select throws_ok($$select pgq.alter_queue('limited', max_lease => '9 s')$$, '22023', null,
    'not shorter than a lease');
select pgq.publish('limited', '1');
select lease_id as lease, lease_until - pgq.now() as span from pgq.claim('limited', lease => '1 h')
\gset
select is(:'span'::text, '00:00:25'::text, 'a claim asks for no more than that');
select pgq.release(:lease);
select lease_id as lease from pgq.claim('limited') \gset
select t.advance('8 s');
select is(pgq.extend(:lease), pgq.now() + interval '10 s', 'a lease is extended');
select t.advance('9 s');
select is(pgq.extend(:lease), pgq.now() + interval '8 s', 'up to the limit after the claim');
select throws_ok(format('select pgq.extend(%s)', :lease), '55000', null, 'and then no more');
select is(pgq.ack(:lease), 1, 'it is still good until then');
select lease_id as lease from pgq.hold('work', 'h') \gset
select is(pgq.extend(:lease), null, 'a lease without an end has no limit');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
