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
-- Claims and acknowledges until nothing comes, n at a time: what came, claim by claim.
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
select is(t.held('q', 'ready'), 'a1 b1 u1 u2', 'of each group the first is ready');
select is(t.held('q', 'waiting'), 'a2 a3 b2', 'the others wait for their turn');
select is((select waiting from pgq.queue_stats where queue = 'q'), 3::bigint,
    'the statistics say so');
select is(t.take('q', n => 10), 'a1 b1 u1 u2', 'a claim of many gets one of each group');
select is(t.take('q', n => 10), null, 'nothing more while they are leased');
select max(id) filter (where payload = '"a1"') as a1, max(id) filter (where payload = '"b1"') as b1
from pgq.message \gset
select is(pgq.ack(pg_temp.lease(), array[:a1]), 1, 'one of them is acknowledged');
select is(t.take('q', n => 10), 'a2', 'and the next of its group can be claimed');
select pgq.ack(lease_id) from (select distinct lease_id from pgq.lease) l;
select is(pg_temp.drain(10), 'a3 b2', 'at the end the last ones of both groups');
select is_empty('select * from pgq.group_head', 'an empty group leaves nothing behind');
select is_empty('select * from pgq.group_line', 'nor a line');
select pg_temp.send('a4');
select is(pg_temp.drain(10), 'a4', 'a group can begin again');

-- order among groups and others, claims of any size
select pg_temp.send('u1', 'a1', 'a2', 'u2', 'b1', 'a3', 'u3', 'b2');
select is(pg_temp.drain(1), 'u1, a1, a2, u2, b1, a3, u3, b2',
    'one at a time, all come in the order of their publishing');
select pg_temp.send('u1', 'a1', 'a2', 'u2', 'b1', 'a3', 'u3', 'b2');
select is(pg_temp.drain(3), 'u1 a1 u2, a2 b1 u3, a3 b2', 'three at a time');
select pg_temp.send('u1', 'a1', 'a2', 'u2', 'b1', 'a3', 'u3', 'b2');
select is(pg_temp.drain(100), 'u1 a1 u2 b1 u3, a2 b2, a3', 'a hundred at a time');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- nobody starves behind a group that never ends
select pg_temp.send('a1', 'a2', 'u1', 'a3', 'a4', 'b1', 'a5');
select is(pg_temp.drain(1), 'a1, a2, u1, a3, a4, b1, a5',
    'a long group lets others have their turn');

-- nor does a group wait for a session that remembers where the head of the queue is
select pg_temp.send('a1', 'a2');
select t.take('q');
select pg_temp.lease() as a1 \gset
update pgq.queue set set_size = 1;
insert into pgq.message (topic, payload) select 'q', '"u"' from generate_series(1, 700);
create temp table rows as
select c.* from generate_series(1, 600) i, pgq.claim('q', n => (i > 0)::int) c;
select is((select count(*) from rows), 600::bigint, 'a session has taken many rows');
select pgq.ack(:a1);
select is(t.take('q'), 'a2', 'the next of the group comes as soon as it can');
select pgq.ack(l.lease_id) from (select distinct lease_id from pgq.lease) l;
update pgq.queue set set_size = 100;
select pg_temp.drain(1000) is not null as done;

-- refused, and again
select pg_temp.send('a1', 'a2', 'b1');
select is(t.take('q'), 'a1', 'the first is claimed');
select pgq.nack(pg_temp.lease(), delay => '5 s');
select is(t.take('q', n => 10), 'b1', 'while it waits for another attempt, only other groups flow');
select pgq.ack(pg_temp.lease());
select t.advance('5 s');
select is(t.take('q', n => 10), 'a1', 'it comes again first');
select pgq.nack(pg_temp.lease(), delay => '0');
select is(pg_temp.drain(10), 'a1, a2', 'and again at once, and then the next');

-- a lease that ends by time
select pg_temp.send('a1', 'a2');
select is(t.take('q', n => 10), 'a1', 'the first is claimed');
select t.advance('9 s');
select is(t.take('q', n => 10), null, 'the next waits as long as the lease lasts');
select t.advance('1 s');
select is(t.take('q', n => 10), 'a1', 'when it has expired the first comes again');
select pgq.ack(pg_temp.lease());
select is(pg_temp.drain(10), 'a2', 'and then the next');

-- a dead letter releases its group
select pg_temp.send('a1', 'a2', 'a3');
select t.take('q');
select pgq.bury(pg_temp.lease(), error => 'no');
select is(t.take('q', n => 10), 'a2', 'a dead letter lets the next go on');
select is(pgq.replay('q'), 1, 'it is replayed into the group that has moved on');
select is(t.held('q', 'waiting'), 'a1 a3', 'and stands in line');
select pg_temp.send('a4');
select pgq.ack(pg_temp.lease());
select is(t.take('q', n => 10), 'a1', 'its turn is next');
select is((select attempt from pgq.lease), 1, 'with all its attempts');
select pgq.bury(pg_temp.lease(), error => 'no again');
select is((select replay_count from pgq.dead_letter), 1, 'its past is known all the while');
select is(pg_temp.drain(10), 'a3, a4', 'the others go on');
select is(pgq.replay('q'), 1, 'replayed when its group has ended');
select is(pg_temp.drain(10), 'a1', 'it is a group of its own');
select pg_temp.send('a1', 'a2');
select t.take('q'), pgq.bury(pg_temp.lease()), t.take('q'), pgq.bury(pg_temp.lease());
select is(t.held('q', 'dead'), 'a1 a2', 'a whole group is dead');
select is(pgq.replay('q'), 2, 'it is replayed');
select is(pg_temp.drain(10), 'a1, a2', 'in order');
select pg_temp.send('a1', 'a2');
select t.take('q');
select t.advance('1 min'), t.take('q'), t.advance('1 min'), t.take('q');
select t.advance('1 min');
select is(t.take('q', n => 10), 'a2', 'a message that times out too often lets the next go on');
select is((select reason from pgq.dead_letter), 'timeout', 'it is a dead letter');
select pgq.ack(pg_temp.lease());
select is(pgq.discard('q'), 1, 'which is thrown away');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- a dead letter blocks its group
select pgq.alter_queue('q', on_dead => 'block');
select pg_temp.send('a1', 'a2', 'b1', 'a3');
select t.take('q');
select pgq.bury(pg_temp.lease());
select is(pg_temp.drain(10), 'b1', 'a dead letter blocks its group, and only that');
select is_empty('select * from pgq.check()', 'a blocked group is sound');
select pg_temp.send('a4');
select is(t.take('q', n => 10), null, 'also what is published later');
select is(pgq.replay('q'), 1, 'it is replayed');
select is(pg_temp.drain(10), 'a1, a2, a3, a4', 'at the head of its group, which then goes on');
select pg_temp.send('a1', 'a2', 'b1', 'b2');
select t.take('q', n => 2);
select pgq.bury(pg_temp.lease());
select is(t.take('q', n => 10), null, 'two groups are blocked');
select is(pgq.discard('q', n => 1), 1, 'one dead letter is thrown away');
select is(pg_temp.drain(10), 'a2', 'and its group goes on');
select is(pgq.discard('q'), 1, 'and the other');
select is(pg_temp.drain(10), 'b2', 'and its group too');
select pg_temp.send('a1', 'a2', 'a3');
select t.take('q'), pgq.nack(pg_temp.lease(), delay => '0', error => 'x');
select t.take('q'), pgq.nack(pg_temp.lease(), delay => '0', error => 'x');
select t.take('q'), pgq.nack(pg_temp.lease(), delay => '0', error => 'x');
select is(t.take('q', n => 10), null, 'the last attempt blocks too');
select pgq.discard('q');
select is(pg_temp.drain(10), 'a2, a3', 'until it is discarded');
select is_empty('select * from pgq.check()', 'all groups are sound');
select pgq.alter_queue('q', on_dead => 'release');

-- expiry
select pgq.publish('q', '"a1"', group_key => 'a', expires_in => '5 s'),
       pgq.publish('q', '"a2"', group_key => 'a', expires_in => '5 s'),
       pgq.publish('q', '"a3"', group_key => 'a'), pgq.publish('q', '"b1"', group_key => 'b');
select t.advance('5 s');
select is(pg_temp.drain(1), 'a3, b1', 'what expires makes room, at the head and in line');
select is(t.held('q', 'dead'), 'a1 a2', 'the expired ones are dead letters');
select is(pgq.replay('q'), 2, 'replayed');
select is(pg_temp.drain(10), 'a1, a2', 'they come in order, though expired');
select pgq.publish('q', '"a1"', group_key => 'a', expires_in => '5 s'), pg_temp.send('a2');
select t.advance('5 s');
call pgq.maintain();
select is(t.held('q', 'ready'), 'a2', 'upkeep ends an expired head and goes on');
select pgq.discard('q');
select is(pg_temp.drain(10), 'a2', 'with the next');
select pgq.alter_queue('q', on_expiry => 'discard', on_dead => 'block');
select pgq.publish('q', '"a1"', group_key => 'a', expires_in => '5 s'), pg_temp.send('a2');
select t.advance('5 s');
select is(pg_temp.drain(10), 'a2', 'what is thrown away when it expires does not block');
select pgq.alter_queue('q', on_expiry => 'dead_letter');
select pgq.publish('q', '"a1"', group_key => 'a', expires_in => '5 s'), pg_temp.send('a2');
select t.advance('5 s');
select is(pg_temp.drain(10), '', 'an expired dead letter blocks like any other');
select is(t.held('q', 'dead'), 'a1', 'there it is');
select pgq.discard('q');
select is(pg_temp.drain(10), 'a2', 'until it is discarded');
select pgq.alter_queue('q', on_dead => 'release');

-- replayed together after they had died one by one, with other pasts and other groups between
select pg_temp.send('a1', 'b1', 'a2', 'b2');
select t.take('q', n => 2), pgq.nack(pg_temp.lease(), delay => '0', error => 'z');
select t.take('q', n => 2), pgq.bury(pg_temp.lease(), error => 'z');
select t.advance('1 s');
select t.take('q', n => 2), pgq.bury(pg_temp.lease(), error => 'a');
select t.held('q', 'dead');
select is(pgq.replay('q'), 4, 'two groups that died one by one are replayed');
select is(t.held('q', 'ready'), 'a1 b1', 'the first of each comes first, whatever its past');
select is(pg_temp.drain(10), 'a1 b1, a2 b2', 'and the others after it');

-- what is replayed before its time can still expire, in line too
select pgq.publish('q', '"a1"', group_key => 'a', expires_in => '5 s'),
       pgq.publish('q', '"u1"', expires_in => '5 s');
select t.take('q', n => 2), pgq.bury(pg_temp.lease());
select pg_temp.send('a2');
select is(pgq.replay('q'), 2, 'replayed before their time is over');
select is(t.held('q', 'waiting'), 'a1', 'one of them stands in line');
select t.advance('5 s');
select is(pg_temp.drain(10), 'a2', 'and both expire');

-- delays
select pgq.publish('q', '"a1"', group_key => 'a', delay => '1 min'),
       pgq.publish('q', '"a2"', group_key => 'a'),
       pgq.publish('q', '"b1"', group_key => 'b'),
       pgq.publish('q', '"b2"', group_key => 'b', delay => '1 min'),
       pgq.publish('q', '"b3"', group_key => 'b');
select is(pg_temp.drain(10), 'b1', 'who is delayed holds up those behind');
select is(t.held('q', 'delayed'), 'a1 b2', 'at the head, or when its turn comes');
select t.advance('1 min');
select is(pg_temp.drain(10), 'a1 b2, a2 b3', 'then both groups go on');
select pgq.publish('q', '"a1"', group_key => 'a'),
       pgq.publish('q', '"a2"', group_key => 'a', delay => '1 s');
select t.take('q');
select t.advance('2 s');
select pgq.ack(pg_temp.lease());
select is(pg_temp.drain(10), 'a2', 'a delay that has passed in line is over');

-- filters
select pgq.publish('q', '"a1"', '{"type": "x"}', group_key => 'a'),
       pgq.publish('q', '"a2"', '{"type": "y"}', group_key => 'a'),
       pgq.publish('q', '"a3"', '{"type": "x"}', group_key => 'a'),
       pgq.publish('q', '"b1"', '{"type": "y"}', group_key => 'b');
select is(pg_temp.drain(10, '{"type": "y"}'), 'b1', 'a filter does not let later ones overtake');
select is(pg_temp.drain(10, '{"type": "x"}'), 'a1', 'each filter gets what is at its head');
select is(pg_temp.drain(10, '{"type": "y"}'), 'a2', 'turn by turn');
select is(pg_temp.drain(10), 'a3', 'to the end');

-- priorities
select pgq.publish('q', '"a1"', group_key => 'a'),
       pgq.publish('q', '"a2"', group_key => 'a', priority => 9),
       pgq.publish('q', '"b1"', group_key => 'b', priority => 5),
       pgq.publish('q', '"u1"', priority => 1);
select is(pg_temp.drain(1), 'b1, u1, a1, a2', 'a priority matters among heads, not in a group');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- many in one statement, of different kinds
insert into pgq.message (topic, payload, group_key, priority, expires_at, deliver_at, headers)
select 'q', to_jsonb(g || i), g, case when i % 2 = 0 then 3 else 0 end,
       case when i % 3 = 0 then pgq.now() + interval '1 h' end,
       case when i = 2 then pgq.now() + interval '1 s' end, jsonb_build_object('type', i % 3)
from generate_series(1, 4) i, unnest('{c,a,b}'::text[]) g;
select is(t.held('q', 'ready'), 'c1 a1 b1', 'of each group in a batch the first is ready');
select is(pg_temp.drain(10), 'c1 a1 b1', 'they come in the order of their publishing');
select t.advance('1 s');
select is(pg_temp.drain(10), 'c2 a2 b2, c3 a3 b3, c4 a4 b4', 'each group in its order');
insert into pgq.message (topic, payload, group_key, priority)
values ('q', '"a1"', 'a', 0), ('q', '"a2"', 'a', 9), ('q', '"b1"', 'b', 9), ('q', '"b2"', 'b', 0),
       ('q', '"u1"', null, 9);
select is(pg_temp.drain(10), 'b1 u1 a1, a2 b2', 'also if only some have a priority');
select pgq.publish_batch('q', '{"\"a1\"","\"a2\"","\"a3\""}', group_key => 'a');
select is(pg_temp.drain(10), 'a1, a2, a3', 'a batch can be of one group');
select pgq.subscribe('q', 'z.#'), pgq.subscribe('q', 'a.#');
insert into pgq.message (topic, payload, group_key)
values ('z.1', '"g1"', 'g'), ('a.1', '"g2"', 'g'), ('q', '"g3"', 'g'), ('a.2', '"h1"', 'h'),
       ('z.1', '"h2"', 'h');
select is(pg_temp.drain(10), 'g1 h1, g2 h2, g3', 'a group can span topics, in one statement too');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- lanes
select pgq.alter_queue('q', lane_keys => '{type}');
insert into pgq.message (topic, payload, group_key, headers)
select 'q', to_jsonb(g || i), g, jsonb_build_object('type', (i + ascii(g)) % 2)
from generate_series(1, 3) i, unnest('{a,b}'::text[]) g;
select is(pg_temp.drain(10, '{"type": 0}'), 'a1', 'a head stands in its own lane');
select is(pg_temp.drain(10, '{"type": 1}'), 'a2 b1', 'the next in another');
select is(pg_temp.drain(10), 'a3 b2, b3', 'in order');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- each queue has its own groups
select pgq.subscribe('other', 'q');
select pg_temp.send('a1', 'a2');
select is(pg_temp.drain(10), 'a1, a2', 'one queue is done with a group');
select is(t.take('other', n => 10), 'a1', 'the other has only begun');
select is_empty('select * from pgq.check()', 'all groups are sound');

-- a dropped queue takes its groups along
select pg_temp.send('a3');
select throws_ok($$select pgq.drop_queue('other')$$, '55000', null,
    'a queue with a line is not dropped by mistake');
select pgq.drop_queue('other', force => true);
select is((select count(*) from pgq.group_head) + (select count(*) from pgq.group_line), 1::bigint,
    'only the group of the other queue is left');
select is(pg_temp.drain(10), 'a3', 'which goes on');

-- a message in line is not lost from sight
select pg_temp.send('a1', 'a2');
select max(id) as a2 from pgq.message where payload = '"a2"' \gset
select is((select event from pgq.history(:a2) order by at nulls last offset 1), 'waiting',
    'its history says that it waits for its turn');
select is(pg_temp.drain(10), 'a1, a2', 'and then it comes');

-- a group whose advance was deferred, after a claim by filter has done the upkeep of the tick
select pgq.create_queue('deferred');
select is(t.take('deferred', '{"type": 1}'), null, 'a claim by filter');
insert into pgq.group_stall (queue_id, group_key, message_id)
select q.queue_id, 'a', 0 from pgq.queue q where q.name = 'deferred';
select is(t.take('deferred'), null, 'an empty claim in the same tick');
select is((select count(*) from pgq.group_stall), 0::bigint, 'advances the group');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
