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
    null, 'acknowledging a message a second time is an error');
select is(t.held('work', 'leased'), '4 5 6 7 8 9 10', 'a failed ack acknowledges nothing');
select throws_ok(format('select pgq.ack(%s, array[%s])', :lease, 999999999), 'QU003', null,
    'acknowledging an unknown message is an error');
select is(pgq.ack(:lease, '{}'), 0, 'an empty list of ids acknowledges nothing');
select is(pgq.ack(:lease), 7, 'ack without ids acknowledges everything left');
select is(t.held('work', 'leased'), null, 'no message is held any more');
select throws_ok(format('select pgq.ack(%s)', :lease), 'QU003', null,
    'acknowledging a lease a second time is an error');
select throws_ok('select pgq.ack(null)', 'QU003', null, 'null is not a lease id');
select throws_ok('select pgq.ack(12345678901234)', 'QU003', 'lease 12345678901234 is lost',
    'a wrong token is an error');
select matches(t.hint_of('select pgq.ack(12345678901234)'), 'extend', 'the hint names extend');
select is((select array_agg(size order by size) from pgq.journal where event = 'ack'),
    '{1,2,7}'::int[], 'the audit log has a row for each call');
select is((select count(*) from pgq.message where topic = 'work'), 10::bigint,
    'the log still has the messages');
select pgq.alter_queue('work', journal => 'failures');
select pgq.publish('work', '"quiet"');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.ack(:lease);
select is((select sum(size) from pgq.journal where event = 'ack'), 10::bigint,
    'a queue may leave acknowledgements out of the audit log');
select pgq.publish('work', '"quiet"');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.alter_queue('work', journal => 'all');
select pgq.ack(:lease);
select is((select sum(size) from pgq.journal where event = 'ack'), 10::bigint,
    'the setting at the time of the claim decides');

-- a claim that also acknowledges an earlier lease (done)
insert into pgq.message (topic, payload) select 'work', to_jsonb(i) from generate_series(1, 4) i;
select max(lease_id) as lease from pgq.claim('work', n => 2) \gset
create temp table next as select * from pgq.claim('work', n => 1, done => :lease);
select results_eq('select payload::text from next', array['3'],
    'a claim with done takes the next message');
select is(t.held('work', 'leased'), '3', 'the messages of the earlier lease are acknowledged');
select throws_ok(format('select pgq.claim(''work'', done => %s)', :lease), 'QU003', null,
    'a claim that would acknowledge a stale lease is an error');
select is(t.held('work', 'ready'), '4', 'such a claim takes nothing');
select throws_ok(format('select pgq.claim(''work'', n => 0, done => %s)', max(lease_id)), '22023',
    null, 'a claim of 0 messages is refused') from next;
select is(t.held('work', 'leased'), '3', 'a refused claim acknowledges nothing');
select throws_ok(format('select pgq.claim(''nowhere'', done => %s)', max(lease_id)), 'QU001',
    null, 'a claim from an unknown queue is refused') from next;
select is(t.held('work', 'leased'), '3', 'a claim from an unknown queue acknowledges nothing');
select max(lease_id) as lease from next \gset
select max(lease_id) as last from pgq.claim('work', n => 5, done => :lease) \gset
select pgq.pause('work');
select is((select count(*) from pgq.claim('work', done => :last)), 0::bigint,
    'a claim from a paused queue finds nothing');
select is(t.held('work', 'leased'), null,
    'a claim that finds nothing still acknowledges the earlier lease');
select pgq.resume('work');
select is((select sum(size) from pgq.journal where event = 'ack'), 14::bigint,
    'the audit log records these acknowledgements');

-- nack
select pgq.publish('work', '"n"');
select max(lease_id) as lease from pgq.claim('work') \gset
select is(pgq.nack(:lease, error => 'out of paper'), 1, 'a message is nacked');
select is(t.held('work', 'retrying'), 'n', 'a nacked message waits for its next attempt');
select ok((select due_at between pgq.now() + interval '4 s' and pgq.now() + interval '8 s'
           from pgq.scheduled), 'the retry is due after half to all of the backoff');
select throws_ok(format('select pgq.nack(%s)', :lease), 'QU003', null,
    'a second nack is an error');
select is(t.take('work'), null, 'a nacked message is not redelivered before it is due');
select t.advance('8 s');
create temp table second as select * from pgq.claim('work');
select is((select attempt from second), 2, 'the redelivery is the second attempt');
select max(lease_id) as lease from second \gset
select pgq.nack(:lease, error => 'still out of paper');
select ok((select due_at between pgq.now() + interval '8 s' and pgq.now() + interval '16 s'
           from pgq.scheduled), 'the backoff doubles');
select t.advance('16 s');
select max(lease_id) as lease from pgq.claim('work') \gset
select is(pgq.nack(:lease, error => 'no paper', details => '{"tray": 2}'), 1,
    'the last attempt is nacked like any other');
select is(t.held('work', 'dead'), 'n', 'a nack of the last attempt makes a dead letter');
select is((select to_jsonb(d) - '{dead_letter_id,message_id,queue_id,failed_at,published_at,
               failures,holder,client}'::text[] from pgq.dead_letter d),
    '{"queue": "work", "reason": "processing_error", "error": "no paper",
      "details": {"tray": 2}, "attempts": 3, "replay_count": 0, "replayed_at": null,
      "topic": "work", "priority": 0, "headers": {},
      "payload": "n", "sender": null, "recipient": null, "reply_to": null, "correlation_id": null,
      "group_key": null, "dedup_key": null, "deliver_at": null, "expires_at": null}',
    'the dead letter contains the whole message and the failure');
select is((select jsonb_path_query_array(failures, '$[*].error') from pgq.dead_letter),
    '["out of paper", "still out of paper", "no paper"]',
    'the dead letter has the error of every attempt');
select is((select jsonb_path_query_array(failures, '$[*].attempt') from pgq.dead_letter),
    '[1, 2, 3]', 'the failures are in the order of the attempts');
select is((select holder from pgq.dead_letter), current_setting('application_name'),
    'the dead letter names its last holder');
select is((select failures -> 0 ->> 'holder' from pgq.dead_letter),
    current_setting('application_name'), 'the first failure names its holder');
select is((select failed_at from pgq.dead_letter), pgq.now(),
    'the dead letter has the time of the last failure');
select throws_ok($$select pgq.nack(1, delay => '-1 s')$$, '22023', null,
    'a negative delay is refused');

-- delays
insert into pgq.message (topic, payload)
select 'work', to_jsonb('d' || i) from generate_series(1, 4) i;
select max(lease_id) as lease, min(id) as first from pgq.claim('work', n => 4) \gset
select is(pgq.nack(:lease, array[:first], delay => '0'), 1, 'one message of a lease is nacked');
select is(t.take('work', n => 9), 'd1',
    'a message that is nacked with a delay of 0 is ready at once');
select is(pgq.nack(:lease, array[:first + 1], delay => '90 min'), 1, 'nack accepts a delay');
select is((select due_at from pgq.scheduled), pgq.now() + interval '90 min',
    'the delay of a nack has no jitter and no limit');
select throws_ok(format('select pgq.nack(%s, array[%s, %s])', :lease, :first + 2, :first + 1),
    'QU003', null, 'a nack of a message that is not held is an error');
select is(t.held('work', 'leased'), 'd1 d3 d4', 'a failed nack changes nothing');
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
    'a buried message is a dead letter at its first attempt');
select is(t.held('work', 'leased'), 'good', 'the other message is still held');
select throws_ok(format('select pgq.bury(%s, array[%s])', :lease, :first), 'QU003', null,
    'burying a message twice is an error');
select is(pgq.bury(:lease), 1, 'bury without ids buries everything left');
select throws_ok(format('select pgq.bury(%s)', :lease), 'QU003', null,
    'bury with a stale lease is an error');

-- reasons
select pgq.publish('work', '"plain"');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.nack(:lease, delay => '0');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.nack(:lease, delay => '0');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.nack(:lease, delay => '0');
select is((select reason from pgq.dead_letter where payload = '"plain"'), 'max_attempts',
    'a message that is nacked too often without an error has reason max_attempts');
select is((select jsonb_path_query_array(failures, '$[*].outcome') from pgq.dead_letter
           where payload = '"plain"'), '["nack", "nack", "nack"]',
    'the dead letter lists every attempt');
select pgq.drop_queue('work', force => true);

-- extend
select pgq.create_queue('work', lease => '30 s');
select pgq.publish('work', '"e"');
select max(lease_id) as lease from pgq.claim('work') \gset
select t.advance('20 s');
select is(pgq.extend(:lease), pgq.now() + interval '30 s',
    'extend uses the lease duration of the queue by default');
select t.advance('29 s');
select is(t.take('work'), null, 'an extended lease holds its messages for longer');
select is(pgq.extend(:lease, '1 h'), pgq.now() + interval '1 h', 'extend accepts a lease duration');
select is(pgq.extend(:lease, '1 min'), pgq.now() + interval '1 h', 'extend never shortens a lease');
select t.advance('59 min');
select is(t.take('work'), null, 'an extended lease holds its messages until its new end');
select is((select lease_until from pgq.leased(:lease)), pgq.now() + interval '1 min',
    'pgq.leased shows the new end of the lease');
select t.advance('2 min');
select is(pgq.extend(:lease, '10 s'), pgq.now() + interval '10 s',
    'an expired lease that nobody took back can be extended');
select t.advance('11 s');
select is(t.take('work'), 'e', 'a claim takes back an expired lease');
select throws_ok(format('select pgq.extend(%s)', :lease), 'QU003', null,
    'a lease that was taken back cannot be extended');
select throws_ok(format('select pgq.extend(%s, ''0'')', :lease), '22023', null,
    'a lease duration of 0 is refused');
select throws_ok('select pgq.extend(null)', 'QU003', null, 'null is not a lease id');
select isnt(t.hint_of('select pgq.extend(1)'), '', 'the error of extend has a hint');
select pgq.drop_queue('work', force => true);

-- leased
select pgq.create_queue('work', lease => '30 s');
insert into pgq.message (topic, payload, priority, headers)
select 'work', to_jsonb(i), i % 2, '{"h": 1}' from generate_series(1, 5) i;
create temp table claimed as select * from pgq.claim('work', n => 5);
select max(lease_id) as lease, min(id) as first from claimed \gset
select results_eq(format('select * from pgq.leased(%s)', :lease), 'select * from claimed',
    'pgq.leased returns the messages as they were claimed');
select pgq.ack(:lease, array[:first, :first + 1]);
select is((select count(*) from pgq.leased(:lease)), 3::bigint,
    'pgq.leased leaves out acknowledged messages');
select throws_ok('select pgq.leased(77)', 'QU003', null, 'an unknown lease cannot be read');
select throws_ok('select pgq.leased(null)', 'QU003', null, 'a lease id of null cannot be read');

-- peek
insert into pgq.message (topic, payload, priority) values
    ('work', '"b"', 0), ('work', '"a"', 1), ('work', '"c"', 0);
select pgq.publish('work', '"later"', delay => '1 min');
select is(t.peek('work'), 'a b c', 'peek shows what a claim would take, in order');
select is(t.peek('work', n => 2), 'a b', 'peek shows as many messages as asked for');
select is(t.peek('work', '{"msg": {"priority": 0}}'), 'b c',
    'peek with a filter shows the messages that match');
select is(t.peek('work', '{}'), 'a b c', 'peek with an empty filter shows all messages');
select is(t.peek('work'), 'a b c', 'peek takes nothing');
select is(t.held('work', 'ready'), 'b a c', 'all messages are still ready after peek');
select throws_ok(format('select pgq.peek(%s)', x), code, null, 'peek is refused: ' || x)
from (values ($$'nowhere'$$, 'QU001'), ($$'work', n => 0$$, '22023'),
             ($$'work', n => null$$, '22023'), ($$'work', '{"$what": 1}'$$, 'QU004')) r (x, code);
select count(*) from pgq.publish_batch('work', array_fill('"x"'::jsonb, array[3000]));
select is((select count(*) from pgq.peek('work', n => 2500)), 2500::bigint, 'peek can show many');
select is((select count(*) from pgq.peek('work', n => 100000)), 3003::bigint,
    'peek can show all messages');

-- numbers that cannot be a lease id
select publish as id from pgq.publish('work', '1') \gset
select throws_ok(format('select pgq.%s(%s)', v, :id), 'QU003', format('%s is not a lease id', :id),
    v || ' of a message id says that it is not a lease id')
from unnest('{ack,nack,bury,extend,release}'::text[]) v;
select throws_ok(format('select pgq.ack(%s)', x), 'QU003', x || ' is not a lease id',
    'ack says that ' || x || ' is not a lease id') from unnest(array['100000000000', 'null']) x;
select matches(t.hint_of(format('select pgq.ack(%s)', :id)), 'lease_id',
    'the hint for a message id names lease_id');

-- a queue can limit how long a lease lasts
select pgq.create_queue('limited', lease => '10 s', max_lease => '25 s');
select throws_ok($$select pgq.alter_queue('limited', max_lease => '9 s')$$, '22023', null,
    'max_lease cannot be shorter than the lease duration');
select pgq.publish('limited', '1');
select lease_id as lease, lease_until - pgq.now() as span from pgq.claim('limited', lease => '1 h')
\gset
select is(:'span'::text, '00:00:25'::text, 'a claim cannot ask for more than max_lease');
select pgq.release(:lease);
select lease_id as lease from pgq.claim('limited') \gset
select t.advance('8 s');
select is(pgq.extend(:lease), pgq.now() + interval '10 s', 'a lease is extended');
select t.advance('9 s');
select is(pgq.extend(:lease), pgq.now() + interval '8 s',
    'extend stops at max_lease after the claim');
select throws_ok(format('select pgq.extend(%s)', :lease), '55000', null,
    'a lease that has reached max_lease cannot be extended');
select is(pgq.ack(:lease), 1, 'a lease that has reached max_lease can be acknowledged');
select lease_id as lease from pgq.hold('work', 'h') \gset
select is(pgq.extend(:lease), null, 'extend of a lease without an end returns null');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
