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
-- A claim that takes runs: what it holds, in delivery order.
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

-- as many as are wanted, in order, of each group about as many
select pg_temp.send('a1', 'a2', 'b1', 'a3', 'u1', 'a4', 'b2');
select is(pg_temp.hold('one', 6), 'a1 a2 b1 a3 u1 b2',
    'a batch has what waits behind the heads too, and of each group about as many');
select is(pg_temp.hold('one', 100), 'a1 a2 b1 a3 u1 b2', 'its name has the same again');
select is(t.held('q', 'waiting'), 'a4', 'one waits');
select is(pg_temp.hold('two'), null, 'and nobody else gets anything of these groups');
select is_empty('select * from pgq.check()', 'groups are sound');
select pg_temp.send('a5');
select is(pgq.ack(pg_temp.held('one')), 6, 'the whole of it is acknowledged');
select is(pg_temp.hold('one'), 'a4 a5', 'and the groups go on');
select pgq.ack(pg_temp.held('one'));
select is_empty('select * from pgq.group_head union all select queue_id, group_key, message_id
                 from pgq.group_line', 'an empty group leaves nothing behind');
select pg_temp.send('a1', 'a2', 'a3');
select is(t.take('q', n => 10), 'a1', 'who does not ask for runs gets the head alone');
select pgq.release(lease_id) from pgq.lease;

-- a part is acknowledged
select is(pg_temp.hold('one'), 'a1 a2 a3', 'what was released is taken again');
select is(pgq.ack(pg_temp.held('one'), pg_temp.ids('a2')), 1, 'the second is done');
select is(pgq.ack(pg_temp.held('one'), pg_temp.ids('a1')), 1, 'then the first');
select is(t.held('q', 'leased'), 'a3', 'the third is still leased');
select is(pg_temp.hold('two'), null, 'and blocks the group');
select is_empty('select * from pgq.check()', 'the third is its head now');
select pg_temp.send('a4');
select pgq.finish(pg_temp.held('one'), (pg_temp.ids('a3'))[1]);
select is(pg_temp.hold('one'), 'a4', 'the last one lets the next ones in');
select pgq.ack(pg_temp.held('one'));

-- one is refused
select pg_temp.send('a1', 'a2', 'a3', 'a4', 'b1', 'b2');
select pg_temp.hold('one') as first \gset
select is(pgq.nack(pg_temp.held('one'), pg_temp.ids('a3'), error => 'no'), 1, 'one is refused');
select is(t.held('q', 'leased') || ', ' || t.held('q', 'waiting'), 'a1 a2 b1 b2, a3 a4',
    'those behind it go back with it');
select is_empty('select * from pgq.check()', 'groups are sound');
select is(pgq.ack(pg_temp.held('one')), 4, 'the others are done');
select is(pg_temp.hold('one'), null, 'it comes back after its delay');
select t.at('2030-01-01 00:00:02+00');
select is(pg_temp.hold('one'), 'a3', 'alone, because it has failed before');
select is((select error from pgq.lease l, jsonb_to_recordset(l.failures) f (error text)), 'no',
    'with its past');
select pgq.nack(pg_temp.held('one'), delay => '0');
select is(pg_temp.hold('one'), 'a3', 'refused again it is still before the others');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a4', 'and then these');
select pgq.ack(pg_temp.held('one'));

-- the head is refused, released, buried
select pg_temp.send('a1', 'a2', 'a3');
select pg_temp.hold('one') as first \gset
select is(pgq.nack(pg_temp.held('one'), pg_temp.ids('a1'), delay => '0'), 1, 'a head is refused');
select is(t.held('q', 'ready') || ', ' || t.held('q', 'waiting'), 'a1, a2 a3', 'all go back');
select throws_ok($$select pg_temp.held('one')$$, 'QU003', null, 'nothing is left of the lease');
select is((select array_agg(event order by size) from pgq.journal where event in ('nack', 'release')
           and ids && pgq._set_of(array(select id from pgq.message_state))),
    '{nack,release}'::text[], 'the audit log says what happened to whom');
select is(pg_temp.hold('one'), 'a1', 'a head that has failed gets no company');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a2 a3', 'the others come in one batch again');
select is(pgq.release(pg_temp.held('one')), 2, 'all of it is released');
select is(pg_temp.hold('one'), 'a2 a3', 'and is as before');
select is((select attempt from pgq.lease), 1, 'nothing has failed');
select is(pgq.bury(pg_temp.held('one'), pg_temp.ids('a2')), 1, 'a head is buried');
select is(t.held('q', 'leased'), 'a3', 'a dead letter lets the group go on, and the lease too');
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
select is(pgq.bury(pg_temp.held('one'), pg_temp.ids('c2')), 1, 'one behind the head is buried');
select is(t.held('q', 'waiting'), 'c2 c3', 'before its turn it cannot block its group');
select is(pg_temp.dead() - :dead, 0::bigint, 'and is not counted as dead');
select is(pg_temp.buried() - :buried, 1::bigint, 'but as refused');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'c2', 'it comes alone');
select pgq.bury(pg_temp.held('one'));
select is(pg_temp.hold('one'), null, 'and blocks the group when it is buried again');
select is(pg_temp.dead() - :dead, 1::bigint, 'now it is dead');
select is_empty('select * from pgq.check()', 'groups are sound');
select pgq.discard('q');
select is(pg_temp.hold('one'), 'c3', 'until it is discarded');
select pgq.ack(pg_temp.held('one'));
select pgq.alter_queue('q', on_dead => 'release');

-- a lease that times out
select pg_temp.send(variadic array(
    select 'd' || lpad(i::text, 2, '0') from generate_series(1, 30) i));
select is(length(pg_temp.hold('late')), 119, 'thirty in one batch');
select t.at('2030-01-01 00:01:00+00');
select is(pg_temp.hold('one'), 'd01', 'the head is suspect and comes alone');
select is_empty('select * from pgq.check()', 'groups are sound');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'd02', 'so are the first ones behind it');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'd03', 'a tenth of the batch');
select pgq.ack(pg_temp.held('one'));
select is(left(pg_temp.hold('one'), 11), 'd04 d05 d06', 'the others come together');
select pgq.ack(pg_temp.held('one'));

-- how far a run goes
select pgq.publish('q', '"a1"', '{"x": 1}', group_key => 'a');
select pgq.publish('q', '"a2"', '{"x": 1}', group_key => 'a');
select pgq.publish('q', '"a3"', '{"x": 2}', group_key => 'a');
select pgq.publish('q', '"a4"', '{"x": 1}', group_key => 'a');
select is(pg_temp.hold('one', filter => '{"x": 1}'), 'a1 a2', 'to the first that does not match');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a3 a4', 'the rest is for whoever takes it');
select pgq.ack(pg_temp.held('one'));
select pgq.publish('q', '"a1"', group_key => 'a');
select pgq.publish('q', '"a2"', group_key => 'a', priority => 5);
select pgq.publish('q', '"a3"', group_key => 'a', delay => '5 s');
select pgq.publish('q', '"a4"', group_key => 'a', expires_in => '1 s');
select is(pg_temp.hold('one'), 'a1', 'to the first of another priority');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a2', 'to the first that is delayed');
select pgq.ack(pg_temp.held('one'));
select t.at('2030-01-01 00:01:06+00');
select pg_temp.send('a5');
select is(pg_temp.hold('one'), 'a3', 'to the first that has expired');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a5', 'which is left out');
select pgq.ack(pg_temp.held('one'));
select pgq.alter_queue('q', max_leased => 10);
select pg_temp.send('a1', 'a2');
select is(pg_temp.hold('one'), 'a1', 'a queue with limits gives heads alone');
select pgq.ack(pg_temp.held('one'));
select is(pg_temp.hold('one'), 'a2', 'one after the other');
select pgq.ack(pg_temp.held('one'));
select pgq.alter_queue('q', max_leased => 0);

-- a batch of 2,000 with five keys is 2,000, however they are spread
select pgq.publish_batch('q', array_agg(to_jsonb(i)), group_key => 'k' || least(g, 4))
from generate_series(1, 400) i, generate_series(0, 8, 2) g group by g;
select count(*) as all, count(distinct m.group_key) as keys
from pgq.stream_begin('q', 's', 'o') b,
    pgq.stream_claim('q', 's', 'o', 1, n => 1999, runs => true) h
cross join lateral pgq.leased(h.lease_id) m \gset
select is(:all, 1999, 'a stream gets a full batch');
select is(pgq.stream_finish('q', 's', 'o', 1), 1999, 'and finishes it');
select is((select size from pgq.stream_claim('q', 's', 'o', 2, n => 1000, runs => true)), 1::bigint,
    'the rest is the next batch');
select is_empty('select * from pgq.check()', 'groups are sound');
select * from finish();
rollback;
