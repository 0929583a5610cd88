-- Ordering groups keep their order whatever happens to a message; other groups do not wait.
begin;
select no_plan();
select t.at('2030-01-01 00:00:00+00');
select pgq.create_queue('q', lease => '10 s', max_attempts => 3, backoff => '1 s',
    max_backoff => '1 s');
create function pg_temp.send(variadic messages text[]) returns void language sql as $$
    select pgq.publish('q', to_jsonb(m), group_key => nullif(left(m, 1), 'u'))
    from unnest(messages) with ordinality u (m, i) order by i $$;
create function pg_temp.lease() returns bigint language sql as $$
    select lease_id from pgq.lease order by claimed_at desc, lease_id desc limit 1 $$;
-- Claims and acknowledges n messages at a time until the queue is empty. Returns each claim.
create function pg_temp.drain(n int, filter jsonb default null) returns text
language plpgsql as $$
declare
    v_all text[] := '{}';
    v_got text;
begin
    loop
        v_got := t.take('q', filter, n);
        exit when v_got is null or cardinality(v_all) > 100;
        v_all := v_all || v_got;
        perform pgq.ack(pg_temp.lease());
    end loop;
    return array_to_string(v_all, ', ');
end
$$;

-- in order, one at a time per group
select pg_temp.send('a1', 'a2', 'b1', 'a3', 'b2', 'u1', 'u2');
select is(t.held('q', 'ready'), 'a1 b1 u1 u2', 'the first message of each group is ready');
select is(t.held('q', 'waiting'), 'a2 a3 b2', 'the other messages of each group wait');
select is((select waiting from pgq.queue_stats where queue = 'q'), 3::bigint,
    'queue_stats counts the waiting messages');
select is(t.take('q', n => 10), 'a1 b1 u1 u2',
    'a claim of many messages gets one message of each group');
select is(t.take('q', n => 10), null,
    'a claim returns nothing while the heads of all groups are leased');
select max(id) filter (where payload = '"a1"') as a1, max(id) filter (where payload = '"b1"') as b1
from pgq.message \gset
select is(pgq.ack(pg_temp.lease(), array[:a1]), 1, 'one head is acknowledged');
select is(t.take('q', n => 10), 'a2',
    'the next message of a group can be claimed after its head is acknowledged');
select pgq.ack(lease_id) from (select distinct lease_id from pgq.lease) l;
select is(pg_temp.drain(10), 'a3 b2', 'the last messages of both groups are delivered');
select is_empty('select * from pgq.group_head', 'an empty group leaves no row in group_head');
select is_empty('select * from pgq.group_line', 'an empty group leaves no row in group_line');
select pg_temp.send('a4');
select is(pg_temp.drain(10), 'a4', 'the key of an empty group can be used again');

-- order of groups and of messages without a group, with claims of any size
select pg_temp.send('u1', 'a1', 'a2', 'u2', 'b1', 'a3', 'u3', 'b2');
select is(pg_temp.drain(1), 'u1, a1, a2, u2, b1, a3, u3, b2',
    'claims of one message deliver all messages in the order of publication');
select pg_temp.send('u1', 'a1', 'a2', 'u2', 'b1', 'a3', 'u3', 'b2');
select is(pg_temp.drain(3), 'u1 a1 u2, a2 b1 u3, a3 b2',
    'claims of three messages take at most one message of each group');
select pg_temp.send('u1', 'a1', 'a2', 'u2', 'b1', 'a3', 'u3', 'b2');
select is(pg_temp.drain(100), 'u1 a1 u2 b1 u3, a2 b2, a3',
    'claims of a hundred messages take at most one message of each group');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- a long group does not starve other messages
select pg_temp.send('a1', 'a2', 'u1', 'a3', 'a4', 'b1', 'a5');
select is(pg_temp.drain(1), 'a1, a2, u1, a3, a4, b1, a5',
    'messages behind a long group are delivered in the order of publication');

-- the low watermark of a session does not hide the next message of a group
select pg_temp.send('a1', 'a2');
select t.take('q');
select pg_temp.lease() as a1 \gset
update pgq.queue set set_size = 1;
insert into pgq.message (topic, payload) select 'q', '"u"' from generate_series(1, 700);
create temp table rows as
select c.* from generate_series(1, 600) i, pgq.claim('q', n => (i > 0)::int) c;
select is((select count(*) from rows), 600::bigint, 'a session has claimed 600 rows');
select pgq.ack(:a1);
select is(t.take('q'), 'a2',
    'the same session claims the next message of the group after the acknowledgement');
select pgq.ack(l.lease_id) from (select distinct lease_id from pgq.lease) l;
update pgq.queue set set_size = 100;
select pg_temp.drain(1000) is not null as done;

-- nack and redelivery
select pg_temp.send('a1', 'a2', 'b1');
select is(t.take('q'), 'a1', 'the head of the group is claimed');
select pgq.nack(pg_temp.lease(), delay => '5 s');
select is(t.take('q', n => 10), 'b1',
    'a group waits for the retry of its head, other groups do not wait');
select pgq.ack(pg_temp.lease());
select t.advance('5 s');
select is(t.take('q', n => 10), 'a1',
    'a failed head is redelivered before the next message of its group');
select pgq.nack(pg_temp.lease(), delay => '0');
select is(pg_temp.drain(10), 'a1, a2',
    'a head that failed without a delay is redelivered before the next message');

-- a lease that expires
select pg_temp.send('a1', 'a2');
select is(t.take('q', n => 10), 'a1', 'the head of the group is claimed');
select t.advance('9 s');
select is(t.take('q', n => 10), null,
    'the next message of the group waits while the lease of the head lasts');
select t.advance('1 s');
select is(t.take('q', n => 10), 'a1', 'the head is redelivered after its lease has expired');
select pgq.ack(pg_temp.lease());
select is(pg_temp.drain(10), 'a2', 'the next message of the group follows the redelivered head');

-- a dead letter releases its group
select pg_temp.send('a1', 'a2', 'a3');
select t.take('q');
select pgq.bury(pg_temp.lease(), error => 'no');
select is(t.take('q', n => 10), 'a2', 'a group continues after its head has become a dead letter');
select is(pgq.replay('q'), 1, 'a dead letter is replayed while its group continues');
select is(t.held('q', 'waiting'), 'a1 a3',
    'the replayed message waits behind the leased head of its group');
select pg_temp.send('a4');
select pgq.ack(pg_temp.lease());
select is(t.take('q', n => 10), 'a1',
    'the replayed message is delivered before later messages of its group');
select is((select attempt from pgq.lease), 1, 'a replayed message starts with attempt 1');
select pgq.bury(pg_temp.lease(), error => 'no again');
select is((select replay_count from pgq.dead_letter), 1,
    'a replayed message that dies again counts its replay');
select is(pg_temp.drain(10), 'a3, a4', 'the rest of the group is delivered');
select is(pgq.replay('q'), 1, 'a dead letter is replayed after its group has ended');
select is(pg_temp.drain(10), 'a1',
    'a message that was replayed after its group had ended is delivered');
select pg_temp.send('a1', 'a2');
select t.take('q'), pgq.bury(pg_temp.lease()), t.take('q'), pgq.bury(pg_temp.lease());
select is(t.held('q', 'dead'), 'a1 a2', 'all messages of a group are dead letters');
select is(pgq.replay('q'), 2, 'all dead letters of a group are replayed');
select is(pg_temp.drain(10), 'a1, a2', 'a replayed group is delivered in order');
select pg_temp.send('a1', 'a2');
select t.take('q');
select t.advance('1 min'), t.take('q'), t.advance('1 min'), t.take('q');
select t.advance('1 min');
select is(t.take('q', n => 10), 'a2', 'a group continues after its head has timed out too often');
select is((select reason from pgq.dead_letter), 'timeout',
    'the head that timed out too often is a dead letter');
select pgq.ack(pg_temp.lease());
select is(pgq.discard('q'), 1, 'the dead letter of the group is discarded');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- a dead letter blocks its group
select pgq.alter_queue('q', on_dead => 'block');
select pg_temp.send('a1', 'a2', 'b1', 'a3');
select t.take('q');
select pgq.bury(pg_temp.lease());
select is(pg_temp.drain(10), 'b1', 'a dead letter blocks its group and no other group');
select is_empty('select * from pgq.check()', 'a blocked group is sound');
select pg_temp.send('a4');
select is(t.take('q', n => 10), null,
    'a message that is published to a blocked group is not delivered');
select is(pgq.replay('q'), 1, 'the dead letter that blocks its group is replayed');
select is(pg_temp.drain(10), 'a1, a2, a3, a4',
    'a replayed dead letter is delivered first, then the rest of its group');
select pg_temp.send('a1', 'a2', 'b1', 'b2');
select t.take('q', n => 2);
select pgq.bury(pg_temp.lease());
select is(t.take('q', n => 10), null, 'two groups are blocked');
select is(pgq.discard('q', n => 1), 1, 'one of two blocking dead letters is discarded');
select is(pg_temp.drain(10), 'a2', 'a group continues after its blocking dead letter is discarded');
select is(pgq.discard('q'), 1, 'the other blocking dead letter is discarded');
select is(pg_temp.drain(10), 'b2',
    'the other group continues after its blocking dead letter is discarded');
select pg_temp.send('a1', 'a2', 'a3');
select t.take('q'), pgq.nack(pg_temp.lease(), delay => '0', error => 'x');
select t.take('q'), pgq.nack(pg_temp.lease(), delay => '0', error => 'x');
select t.take('q'), pgq.nack(pg_temp.lease(), delay => '0', error => 'x');
select is(t.take('q', n => 10), null, 'a message that fails its last attempt blocks its group');
select pgq.discard('q');
select is(pg_temp.drain(10), 'a2, a3',
    'the group continues after the message that failed is discarded');
select is_empty('select * from pgq.check()', 'all groups are sound');
select pgq.alter_queue('q', on_dead => 'release');

-- expiry
select pgq.publish('q', '"a1"', group_key => 'a', expires_in => '5 s'),
       pgq.publish('q', '"a2"', group_key => 'a', expires_in => '5 s'),
       pgq.publish('q', '"a3"', group_key => 'a'), pgq.publish('q', '"b1"', group_key => 'b');
select t.advance('5 s');
select is(pg_temp.drain(1), 'a3, b1',
    'a group continues after its head and a waiting message have expired');
select is(t.held('q', 'dead'), 'a1 a2', 'the expired messages of a group are dead letters');
select is(pgq.replay('q'), 2, 'the expired messages of a group are replayed');
select is(pg_temp.drain(10), 'a1, a2',
    'replayed messages are delivered in order although they have expired');
select pgq.publish('q', '"a1"', group_key => 'a', expires_in => '5 s'), pg_temp.send('a2');
select t.advance('5 s');
call pgq.maintain();
select is(t.held('q', 'ready'), 'a2',
    'maintenance removes an expired head and makes the next message ready');
select pgq.discard('q');
select is(pg_temp.drain(10), 'a2', 'the message behind an expired head is delivered');
select pgq.alter_queue('q', on_expiry => 'discard', on_dead => 'block');
select pgq.publish('q', '"a1"', group_key => 'a', expires_in => '5 s'), pg_temp.send('a2');
select t.advance('5 s');
select is(pg_temp.drain(10), 'a2', 'an expired message that is discarded does not block its group');
select pgq.alter_queue('q', on_expiry => 'dead_letter');
select pgq.publish('q', '"a1"', group_key => 'a', expires_in => '5 s'), pg_temp.send('a2');
select t.advance('5 s');
select is(pg_temp.drain(10), '', 'an expired dead letter blocks its group');
select is(t.held('q', 'dead'), 'a1', 'the expired head is a dead letter');
select pgq.discard('q');
select is(pg_temp.drain(10), 'a2',
    'the group continues after the expired dead letter is discarded');
select pgq.alter_queue('q', on_dead => 'release');

-- one replay of messages of two groups that died one by one, with different failures
select pg_temp.send('a1', 'b1', 'a2', 'b2');
select t.take('q', n => 2), pgq.nack(pg_temp.lease(), delay => '0', error => 'z');
select t.take('q', n => 2), pgq.bury(pg_temp.lease(), error => 'z');
select t.advance('1 s');
select t.take('q', n => 2), pgq.bury(pg_temp.lease(), error => 'a');
select t.held('q', 'dead');
select is(pgq.replay('q'), 4, 'the dead letters of two groups are replayed');
select is(t.held('q', 'ready'), 'a1 b1',
    'the first message of each replayed group is ready, whatever its failures');
select is(pg_temp.drain(10), 'a1 b1, a2 b2',
    'the other messages of each replayed group follow in order');

-- a message that is replayed before it expires can still expire, also while it waits in its group
select pgq.publish('q', '"a1"', group_key => 'a', expires_in => '5 s'),
       pgq.publish('q', '"u1"', expires_in => '5 s');
select t.take('q', n => 2), pgq.bury(pg_temp.lease());
select pg_temp.send('a2');
select is(pgq.replay('q'), 2, 'two dead letters are replayed before they expire');
select is(t.held('q', 'waiting'), 'a1', 'the replayed message waits behind the head of its group');
select t.advance('5 s');
select is(pg_temp.drain(10), 'a2', 'replayed messages that expire are not delivered');

-- delays
select pgq.publish('q', '"a1"', group_key => 'a', delay => '1 min'),
       pgq.publish('q', '"a2"', group_key => 'a'),
       pgq.publish('q', '"b1"', group_key => 'b'),
       pgq.publish('q', '"b2"', group_key => 'b', delay => '1 min'),
       pgq.publish('q', '"b3"', group_key => 'b');
select is(pg_temp.drain(10), 'b1', 'a delayed message holds up later messages of its group');
select is(t.held('q', 'delayed'), 'a1 b2',
    'a delayed message waits at the head of its group, or when it becomes the head');
select t.advance('1 min');
select is(pg_temp.drain(10), 'a1 b2, a2 b3',
    'both groups continue when their delayed messages are due');
select pgq.publish('q', '"a1"', group_key => 'a'),
       pgq.publish('q', '"a2"', group_key => 'a', delay => '1 s');
select t.take('q');
select t.advance('2 s');
select pgq.ack(pg_temp.lease());
select is(pg_temp.drain(10), 'a2',
    'a delay can end while the message waits behind the head of its group');

-- filters
select pgq.publish('q', '"a1"', '{"type": "x"}', group_key => 'a'),
       pgq.publish('q', '"a2"', '{"type": "y"}', group_key => 'a'),
       pgq.publish('q', '"a3"', '{"type": "x"}', group_key => 'a'),
       pgq.publish('q', '"b1"', '{"type": "y"}', group_key => 'b');
select is(pg_temp.drain(10, '{"type": "y"}'), 'b1',
    'a claim with a filter does not skip the head of a group');
select is(pg_temp.drain(10, '{"type": "x"}'), 'a1',
    'a claim with a filter that matches the head of a group gets the head');
select is(pg_temp.drain(10, '{"type": "y"}'), 'a2',
    'a claim with a filter that matches the next head gets the next head');
select is(pg_temp.drain(10), 'a3', 'a claim without a filter gets the last message of the group');

-- priorities
select pgq.publish('q', '"a1"', group_key => 'a'),
       pgq.publish('q', '"a2"', group_key => 'a', priority => 9),
       pgq.publish('q', '"b1"', group_key => 'b', priority => 5),
       pgq.publish('q', '"u1"', priority => 1);
select is(pg_temp.drain(1), 'b1, u1, a1, a2',
    'priorities order the heads of groups, not the messages within a group');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- many messages in one statement, with different priorities, delays and expiry times
insert into pgq.message (topic, payload, group_key, priority, expires_at, deliver_at, headers)
select 'q', to_jsonb(g || i), g, case when i % 2 = 0 then 3 else 0 end,
       case when i % 3 = 0 then pgq.now() + interval '1 h' end,
       case when i = 2 then pgq.now() + interval '1 s' end, jsonb_build_object('type', i % 3)
from generate_series(1, 4) i, unnest('{c,a,b}'::text[]) g;
select is(t.held('q', 'ready'), 'c1 a1 b1',
    'the first message of each group of a statement is ready');
select is(pg_temp.drain(10), 'c1 a1 b1',
    'the heads of the groups are delivered in the order of publication');
select t.advance('1 s');
select is(pg_temp.drain(10), 'c2 a2 b2, c3 a3 b3, c4 a4 b4',
    'each group of a statement is delivered in its order');
insert into pgq.message (topic, payload, group_key, priority)
values ('q', '"a1"', 'a', 0), ('q', '"a2"', 'a', 9), ('q', '"b1"', 'b', 9), ('q', '"b2"', 'b', 0),
       ('q', '"u1"', null, 9);
select is(pg_temp.drain(10), 'b1 u1 a1, a2 b2',
    'a group keeps its order if only some of its messages have a priority');
select pgq.publish_batch('q', '{"\"a1\"","\"a2\"","\"a3\""}', group_key => 'a');
select is(pg_temp.drain(10), 'a1, a2, a3', 'a batch of one group is delivered in its order');
select pgq.subscribe('q', 'z.#'), pgq.subscribe('q', 'a.#');
insert into pgq.message (topic, payload, group_key)
values ('z.1', '"g1"', 'g'), ('a.1', '"g2"', 'g'), ('q', '"g3"', 'g'), ('a.2', '"h1"', 'h'),
       ('z.1', '"h2"', 'h');
select is(pg_temp.drain(10), 'g1 h1, g2 h2, g3',
    'a group of several topics in one statement keeps its order');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- lanes
select pgq.alter_queue('q', lane_keys => '{type}');
insert into pgq.message (topic, payload, group_key, headers)
select 'q', to_jsonb(g || i), g, jsonb_build_object('type', (i + ascii(g)) % 2)
from generate_series(1, 3) i, unnest('{a,b}'::text[]) g;
select is(pg_temp.drain(10, '{"type": 0}'), 'a1',
    'the head of a group is in the lane of its own values');
select is(pg_temp.drain(10, '{"type": 1}'), 'a2 b1',
    'the next head of a group can be in another lane');
select is(pg_temp.drain(10), 'a3 b2, b3',
    'groups whose messages are in different lanes keep their order');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- each queue has its own groups
select pgq.subscribe('other', 'q');
select pg_temp.send('a1', 'a2');
select is(pg_temp.drain(10), 'a1, a2', 'one of two queues has finished the group');
select is(t.take('other', n => 10), 'a1',
    'the other queue delivers its own copy of the group from the start');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- dropping a queue deletes its groups
select pg_temp.send('a3');
select throws_ok($$select pgq.drop_queue('other')$$, '55000', null,
    'drop_queue refuses a queue with waiting messages');
select pgq.drop_queue('other', force => true);
select is((select count(*) from pgq.group_head) + (select count(*) from pgq.group_line), 1::bigint,
    'dropping a queue leaves only the groups of other queues');
select is(pg_temp.drain(10), 'a3', 'the group of the other queue is delivered');

-- the history of a message that waits behind the head of its group
select pg_temp.send('a1', 'a2');
select max(id) as a2 from pgq.message where payload = '"a2"' \gset
select is((select event from pgq.history(:a2) order by at nulls last offset 1), 'waiting',
    'the history of a message says that it waits in its group');
select is(pg_temp.drain(10), 'a1, a2',
    'a message that waits in its group is delivered after the head');

-- a group whose advance was deferred, after a claim with a filter has done the upkeep of the tick
select pgq.create_queue('deferred');
select is(t.take('deferred', '{"type": 1}'), null, 'a claim with a filter finds nothing');
insert into pgq.group_stall (queue_id, group_key, message_id)
select q.queue_id, 'a', 0 from pgq.queue q where q.name = 'deferred';
select is(t.take('deferred'), null, 'a second claim in the same tick finds nothing');
select is((select count(*) from pgq.group_stall), 0::bigint,
    'the second claim advances the deferred group');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
