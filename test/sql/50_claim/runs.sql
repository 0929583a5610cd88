-- Claims with runs of ordering groups: the head and the messages after it, in order, in one
-- lease.
begin;
select no_plan();
select t.at('2030-01-01 00:00:00+00');
select pgq.create_queue('q', lease => '10 s', max_attempts => 3, backoff => '1 s',
    max_backoff => '1 s');
create function pg_temp.send(variadic messages text[]) returns void language sql as $$
    select pgq.publish('q', to_jsonb(m), group_key => nullif(left(m, 1), 'u'))
    from unnest(messages) with ordinality u (m, i) order by i $$;
-- Claims with runs, and returns the messages of the lease in delivery order.
create function pg_temp.hold(key text, n int default 100, filter jsonb default null)
returns text language sql as $$
    select string_agg(m.payload #>> '{}', ' ' order by m.id)
    from pgq.hold('q', $1, $3, $2, '10 s', runs => true) h
    cross join lateral pgq.leased(h.lease_id) m $$;
create function pg_temp.ids(variadic messages text[]) returns bigint[] language sql as $$
    select array_agg(m.id) from pgq.message m join pgq.message_state s using (id)
    where m.payload #>> '{}' = any (messages) and s.state = 'leased' $$;
create function pg_temp.held(key text) returns bigint language sql as $$
    select pgq.named_lease('q', key) $$;

-- a batch of n messages, in order, with about as many of each group
select pg_temp.send('a1', 'a2', 'b1', 'a3', 'u1', 'a4', 'b2');
select is(pg_temp.hold('one', 6), 'a1 a2 b1 a3 u1 b2',
    'a batch has heads and the messages behind them, about as many of each group');
select is(pg_temp.hold('one', 100), 'a1 a2 b1 a3 u1 b2', 'the same name returns the same batch');
select is(t.held('q', 'waiting'), 'a4', 'one message of a group waits');
select is(pg_temp.hold('two'), null, 'another consumer gets nothing of these groups');
select is_empty('select * from pgq.check()', 'groups are sound');
select pg_temp.send('a5');
select is(pgq.ack(pg_temp.held('one')), 6, 'the whole batch is acknowledged');
select is(pg_temp.hold('one'), 'a4 a5', 'the next batch has the next messages of the groups');
select pgq.ack(pg_temp.held('one'));
select is_empty('select * from pgq.group_head union all select queue_id, group_key, message_id
                 from pgq.group_line', 'an empty group leaves nothing behind');
select pg_temp.send('a1', 'a2', 'a3');
select is(t.take('q', n => 10), 'a1', 'a claim without runs takes the head of a group alone');
select pgq.release(lease_id) from pgq.lease;

-- a part is acknowledged
select is(pg_temp.hold('one'), 'a1 a2 a3', 'released messages are taken again');
select is(pgq.ack(pg_temp.held('one'), pg_temp.ids('a2')), 1, 'the second message is acknowledged');
select is(pgq.ack(pg_temp.held('one'), pg_temp.ids('a1')), 1,
    'then the first message is acknowledged');
select is(t.held('q', 'leased'), 'a3', 'the third message is still leased');
select is(pg_temp.hold('two'), null, 'the leased message blocks its group');
select is_empty('select * from pgq.check()', 'groups are sound');
select pg_temp.send('a4');
select pgq.finish(pg_temp.held('one'), (pg_temp.ids('a3'))[1]);
select is(pg_temp.hold('one'), 'a4',
    'the next message is taken when the last one of the batch is finished');
select pgq.ack(pg_temp.held('one'));

-- nack of a message behind the head
select pg_temp.send('a1', 'a2', 'a3', 'a4', 'b1', 'b2');
select pg_temp.hold('one') as first \gset
select is(pgq.nack(pg_temp.held('one'), pg_temp.ids('a3'), error => 'no'), 1,
    'a message behind the head is nacked');
select is(t.held('q', 'leased') || ', ' || t.held('q', 'waiting'), 'a1 a2 b1 b2, a3 a4',
    'the messages behind the nacked one leave the lease with it');
select is_empty('select * from pgq.check()', 'groups are sound');
select is(pgq.ack(pg_temp.held('one')), 4, 'the other messages are acknowledged');
select is(pg_temp.hold('one'), null,
    'the nacked message is not redelivered before its delay has passed');
select t.at('2030-01-01 00:00:02+00');
select is(pg_temp.hold('one'), 'a3', 'a message that has failed before is delivered alone');
select is((select error from pgq.lease l, jsonb_to_recordset(l.failures) f (error text)), 'no',
    'the lease has the earlier error');
select pgq.nack(pg_temp.held('one'), delay => '0');
select is(pg_temp.hold('one'), 'a3',
    'a message that fails again is still before the others of its group');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a4', 'the next message of the group follows');
select pgq.ack(pg_temp.held('one'));

-- nack, release and bury of the head
select pg_temp.send('a1', 'a2', 'a3');
select pg_temp.hold('one') as first \gset
select is(pgq.nack(pg_temp.held('one'), pg_temp.ids('a1'), delay => '0'), 1,
    'the head of a group is nacked');
select is(t.held('q', 'ready') || ', ' || t.held('q', 'waiting'), 'a1, a2 a3',
    'the messages behind a nacked head leave the lease too');
select throws_ok($$select pg_temp.held('one')$$, 'QU003', null,
    'a lease without messages has ended');
select is((select array_agg(event order by size) from pgq.journal where event in ('nack', 'release')
           and ids && pgq._set_of(array(select id from pgq.message_state))),
    '{nack,release}'::text[], 'the audit log has a nack of the head and a release of the others');
select is(pg_temp.hold('one'), 'a1', 'a head that has failed is delivered alone');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a2 a3', 'the others are delivered in one batch again');
select is(pgq.release(pg_temp.held('one')), 2, 'the whole batch is released');
select is(pg_temp.hold('one'), 'a2 a3', 'a released batch is delivered again as before');
select is((select attempt from pgq.lease), 1, 'a released batch is at its first attempt');
select is(pgq.bury(pg_temp.held('one'), pg_temp.ids('a2')), 1, 'the head of a group is buried');
select is(t.held('q', 'leased'), 'a3',
    'the other messages of the group stay leased when the head is buried');
select is_empty('select * from pgq.check()', 'groups are sound');
select pgq.ack(pg_temp.held('one'));
select pgq.alter_queue('q', on_dead => 'block');
create function pg_temp.dead() returns bigint language sql as $$
    select coalesce(sum(size), 0) from pgq.outcome where reason is not null $$;
create function pg_temp.buried() returns bigint language sql as $$
    select coalesce(sum(size), 0) from pgq.outcome where event = 'bury' $$;
select pg_temp.dead() as dead, pg_temp.buried() as buried \gset
select pg_temp.send('c1', 'c2', 'c3');
select pg_temp.hold('one') as first \gset
select is(pgq.bury(pg_temp.held('one'), pg_temp.ids('c2')), 1,
    'a message behind the head is buried');
select is(t.held('q', 'waiting'), 'c2 c3',
    'a message that is buried before it is the head waits for its turn');
select is(pg_temp.dead() - :dead, 0::bigint, 'that message is not counted as dead');
select is(pg_temp.buried() - :buried, 1::bigint, 'that message is counted as buried');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'c2', 'that message is delivered alone');
select pgq.bury(pg_temp.held('one'));
select is(pg_temp.hold('one'), null, 'a buried head blocks its group');
select is(pg_temp.dead() - :dead, 1::bigint, 'the buried head is counted as dead');
select is_empty('select * from pgq.check()', 'groups are sound');
select pgq.discard('q');
select is(pg_temp.hold('one'), 'c3', 'the group continues when the dead letter is discarded');
select pgq.ack(pg_temp.held('one'));
select pgq.alter_queue('q', on_dead => 'release');

-- a lease that times out
select pg_temp.send(variadic array(
    select 'd' || lpad(i::text, 2, '0') from generate_series(1, 30) i));
select is(length(pg_temp.hold('late')), 119, 'thirty messages are in one batch');
select t.at('2030-01-01 00:01:00+00');
select is(pg_temp.hold('one'), 'd01',
    'the head of an expired lease is suspect and is delivered alone');
select is_empty('select * from pgq.check()', 'groups are sound');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'd02', 'the message behind it is delivered alone too');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'd03', 'a tenth of an expired batch is delivered alone');
select pgq.ack(pg_temp.held('one'));
select is(left(pg_temp.hold('one'), 11), 'd04 d05 d06',
    'the other messages are delivered together');
select pgq.ack(pg_temp.held('one'));

-- where a run ends
select pgq.publish('q', '"a1"', '{"x": 1}', group_key => 'a');
select pgq.publish('q', '"a2"', '{"x": 1}', group_key => 'a');
select pgq.publish('q', '"a3"', '{"x": 2}', group_key => 'a');
select pgq.publish('q', '"a4"', '{"x": 1}', group_key => 'a');
select is(pg_temp.hold('one', filter => '{"x": 1}'), 'a1 a2',
    'a run ends before a message that does not match');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a3 a4', 'the rest of the group is left for other claims');
select pgq.ack(pg_temp.held('one'));
select pgq.publish('q', '"a1"', group_key => 'a');
select pgq.publish('q', '"a2"', group_key => 'a', priority => 5);
select pgq.publish('q', '"a3"', group_key => 'a', delay => '5 s');
select pgq.publish('q', '"a4"', group_key => 'a', expires_in => '1 s');
select is(pg_temp.hold('one'), 'a1', 'a run ends before a message of another priority');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a2', 'a run ends before a delayed message');
select pgq.ack(pg_temp.held('one'));
select t.at('2030-01-01 00:01:06+00');
select pg_temp.send('a5');
select is(pg_temp.hold('one'), 'a3', 'a run ends before an expired message');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a5', 'the expired message is not delivered');
select pgq.ack(pg_temp.held('one'));
select pgq.alter_queue('q', max_leased => 10);
select pg_temp.send('a1', 'a2');
select is(pg_temp.hold('one'), 'a1', 'a queue with limits delivers heads alone');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a2', 'the next head follows when the first is acknowledged');
select pgq.ack(pg_temp.held('one'));
select pgq.alter_queue('q', max_leased => 0);

-- a stream gets a full batch, however unevenly its messages are spread over few groups
select pgq.publish_batch('q', array_agg(to_jsonb(i)), group_key => 'k' || least(g, 4))
from generate_series(1, 400) i, generate_series(0, 8, 2) g group by g;
select count(*) as all, count(distinct m.group_key) as keys
from pgq.stream_begin('q', 's', 'o') b,
    pgq.stream_claim('q', 's', 'o', 1, n => 1999, runs => true) h
cross join lateral pgq.leased(h.lease_id) m \gset
select is(:all, 1999, 'a stream gets a full batch');
select is(pgq.stream_finish('q', 's', 'o', 1), 1999, 'the stream finishes the whole batch');
select is((select size from pgq.stream_claim('q', 's', 'o', 2, n => 1000, runs => true)), 1::bigint,
    'the rest is the next batch');
select is_empty('select * from pgq.check()', 'groups are sound');
select * from finish();
rollback;
