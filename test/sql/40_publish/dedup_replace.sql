-- A queue can replace or postpone a waiting message with a later one of the same dedup key.
begin;
select no_plan();
select t.at(now());
-- Claims and acknowledges one message after the other.
create function pg_temp.drain(topic text) returns text language plpgsql as $$
declare
    v_done text[] := '{}';
    v_next record;
begin
    loop
        select * into v_next from pgq.claim(drain.topic);
        exit when v_next.id is null;
        v_done := v_done || (v_next.payload #>> '{}');
        perform pgq.ack(v_next.lease_id);
    end loop;
    return nullif(array_to_string(v_done, ', '), '');
end
$$;
select pgq.create_queue('r', dedup => 'replace', lease => '1 day');
select pgq.create_queue('p', dedup => 'postpone', lease => '1 day');

-- replace
select pgq.publish('r', '"old"', dedup_key => 'k') as old \gset
select pgq.publish('r', '"other"', dedup_key => 'l');
select pgq.publish('r', '"new"', dedup_key => 'k') as new \gset
select isnt(:new::bigint, :old::bigint, 'a second message with the same key has an id of its own');
select is(t.take('r', n => 10), 'other new',
    'the second message replaces the first one while the first one waits');
select is((select array_agg(event || coalesce(': ' || note, '') order by at, event desc)
           from pgq.history(:old)), array['replace: by message ' || :new, 'publish: r'],
    'the history of a replaced message names the new message');
select is((select state from pgq.result(:old)), 'done', 'the result of a replaced message is done');
select pgq.publish('r', '"newer"', dedup_key => 'k');
select is(t.take('r', n => 10), 'newer',
    'a leased message is not replaced: the new message is delivered too');
select pgq.publish('r', '"a"', dedup_key => 'k');
select pgq.nack((select lease_id from pgq.claim('r')), delay => '0');
select pgq.publish('r', '"b"', dedup_key => 'k');
select is(t.take('r', n => 10), 'a b', 'a message that was delivered before is not replaced');

-- delays (debounce): the newest message is delivered at its own time
select pgq.publish('r', '"d1"', dedup_key => 'd', delay => '10 s');
select t.advance('9 s');
select pgq.publish('r', '"d2"', dedup_key => 'd', delay => '10 s');
select t.advance('9 s');
select is(t.take('r', n => 10), null,
    'a delayed message that was replaced is not delivered when it was due');
select pgq.publish('r', '"d3"', dedup_key => 'd', delay => '10 s');
select t.advance('11 s');
select is(t.take('r', n => 10), 'd3',
    'only the last of several delayed messages is delivered, when it is due');
select pgq.publish('r', '"h1"', dedup_key => 'h', delay => '1 h');
select t.advance('50 min');
select pgq.publish('r', '"h2"', dedup_key => 'h', delay => '1 h');
select t.advance('61 min');
select is(t.take('r', n => 10), 'h2',
    'the window of a delayed message begins when the message is due');
select pgq.publish('r', '"w1"', dedup_key => 'w');
select t.advance('6 min');
select pgq.publish('r', '"w2"', dedup_key => 'w');
select is(t.take('r', n => 10), 'w1 w2', 'a message is not replaced after its window');
-- a delayed message that has become due, and one that an operator has rescheduled
select pgq.publish('r', '"e1"', dedup_key => 'e', delay => '1 s');
select t.advance('2 s');
select pgq.publish('r', '"first"', priority => 5);
select is(t.take('r'), 'first',
    'the claim that makes the due message ready delivers a higher priority first');
select pgq.publish('r', '"e2"', dedup_key => 'e', delay => '1 min');
select is((select count(*) from pgq.message_state where queue = 'r' and state <> 'leased'),
    1::bigint, 'a delayed message that has become ready is replaced');
select pgq.reschedule('r', at => pgq.now() + interval '2 min');
select pgq.publish('r', '"e3"', dedup_key => 'e');
select t.advance('3 min');
select is(t.take('r', n => 10), 'e3', 'a message that an operator has rescheduled is replaced');

-- batches, INSERT
create temp table ids as
select i, ordinality as n from pgq.publish_batch(
    'r', array['"b1"', '"b2"', '"b3"', '"b4"']::jsonb[],
    dedup_keys => array['x', 'y', 'x', null]) with ordinality i;
select is((select array_agg(i - (select min(i) from ids) order by n) from ids),
    '{1,0,1,2}'::bigint[],
    'publish_batch returns for each payload the id of the last message with its key');
insert into pgq.message (topic, payload, dedup_key) values
    ('r', '"i1"', 'y'), ('r', '"i2"', 'z'), ('r', '"i3"', 'z'), ('r', '"i4"', null);
select is(t.take('r', n => 10), 'b3 b4 i1 i3 i4',
    'the last message of each key stays, within a statement and across statements');
-- A statement with many messages of few keys updates each key once. If every message updated its
-- row of pgq.dedup, the time would grow with the square of the number of messages.
select pgq.publish('r', '"before"', dedup_key => 'few1');
create function pg_temp.changes() returns bigint language sql as
    $$select n_tup_upd from pg_stat_xact_all_tables where relid = 'pgq.dedup'::regclass$$;
select pg_temp.changes() as changes \gset
create temp table few as
with i as (
    insert into pgq.message (topic, payload, dedup_key)
    select 'r', to_jsonb(i), 'few' || i % 3 from generate_series(1, 600) i returning id
)
select id from i;
select is(pg_temp.changes() - :changes, 1::bigint,
    'a statement updates only the one key that existed before');
select is(t.take('r', n => 1000), '598 599 600', 'only the last message of each key is delivered');
select is((select array_agg(distinct h.note) from pgq.history((select min(id) from few)) h
           where h.event = 'replace'),
    array['by message ' || (select max(id) - 2 from few)],
    'the history of a replaced message names the last message with its key');
insert into pgq.message (topic, payload, dedup_key, deliver_at)
select 'p', to_jsonb(i), 'few' || i % 3, pgq.now() + i * interval '1 s'
from generate_series(1, 30) i;
insert into pgq.message (topic, payload, dedup_key, deliver_at)
select 'p', to_jsonb(i), 'few' || i % 3, pgq.now() + (100 - i) * interval '1 s'
from generate_series(31, 60) i;
select t.advance('68 s');
select is(t.take('p', n => 1000), '2 3', 'a queue that postpones keeps the first of each key');
select t.advance('1 s');
select is(t.take('p', n => 1000), '1',
    'a message is postponed to the latest time that a later statement gives for its key');

-- groups
select pgq.publish('r', '"g1"', group_key => 'g', dedup_key => 'g1');
select pgq.publish('r', '"g2"', group_key => 'g', dedup_key => 'g2');
select pgq.publish('r', '"g3"', group_key => 'g', dedup_key => 'g3');
select pgq.publish('r', '"g2 new"', group_key => 'g', dedup_key => 'g2');
select pgq.publish('r', '"g1 new"', group_key => 'g', dedup_key => 'g1');
select is(pg_temp.drain('r'), 'g3, g2 new, g1 new',
    'a group continues after its head and a waiting message were replaced');

-- subscriptions with filters
select pgq.create_queue('own', dedup => 'keep', lease => '1 day');
select pgq.create_queue('some', dedup => 'replace', lease => '1 day');
select pgq.subscribe('some', 'own', '{"kind": "a"}');
select pgq.publish('own', '"m1"', '{"kind": "a"}', dedup_key => 'k') as m1 \gset
select isnt(pgq.publish('own', '"m2"', '{"kind": "b"}', dedup_key => 'k'), :m1::bigint,
    'a message with a used key is stored if a queue that replaces may receive it');
select is(t.take('own', n => 10), 'm1', 'a queue that keeps delivers the first message of a key');
select pgq.publish('own', '"m3"', '{"kind": "a"}', dedup_key => 'k');
select is(t.take('some', n => 10), 'm3',
    'a queue that replaces delivers the last message of a key that matches its filter');
select is(t.take('own', n => 10), null,
    'a queue that keeps does not deliver later messages of a key');

-- postpone
select pgq.publish('p', '"first"', dedup_key => 'k', delay => '10 s') as first \gset
select t.advance('9 s');
select is(pgq.publish('p', '"second"', dedup_key => 'k', delay => '10 s'), :first::bigint,
    'a queue that postpones keeps the first message');
select t.advance('9 s');
select is(t.take('p', n => 10), null, 'a postponed message waits until the second message is due');
select is(pgq.publish('p', '"third"', dedup_key => 'k', delay => '1 s'), :first::bigint,
    'a postponed message keeps its dedup key while it waits');
select t.advance('1 s');
select is(t.take('p', n => 10), 'first', 'a postponed message is delivered at its new time');
select matches((select note from pgq.history(:first) where event = 'postpone' limit 1),
    '^message ' || :first || ' until ',
    'the history of a postponed message says until when it waits');
select pgq.publish('p', '"fourth"', dedup_key => 'k', delay => '10 s');
select t.advance('11 s');
select is(t.take('p', n => 10), 'fourth', 'a key whose message was delivered starts a new message');
select pgq.publish('p', '"far"', dedup_key => 'far', delay => '1 min');
select pgq.publish('p', '"near"', dedup_key => 'far');
select is(t.take('p', n => 10), null,
    'a second message without a delay does not bring the first one forward');
select t.advance('61 s');
select is(t.take('p', n => 10), 'far', 'the first message is delivered at its original time');
select pgq.publish('p', '"r1"', dedup_key => 'r');
select pgq.publish('p', '"r2"', dedup_key => 'r', delay => '5 s');
select is(t.take('p', n => 10), null, 'a ready message can be postponed');
select t.advance('6 s');
select is(t.take('p', n => 10), 'r1',
    'a postponed ready message is delivered when the second message is due');
select pgq.publish('p', '"s1"', dedup_key => 's');
select pgq.publish('p', '"s2"', dedup_key => 's');
select is(t.take('p', n => 10), 's1',
    'a ready message stays ready if the second message has no delay');
select pgq.publish('p', '"g1"', group_key => 'g', dedup_key => 'g1');
select pgq.publish('p', '"g2"', group_key => 'g', dedup_key => 'g2');
select pgq.publish('p', '"g2 again"', group_key => 'g', dedup_key => 'g2', delay => '10 s');
select is(pg_temp.drain('p'), 'g1', 'a group delivers its head');
select is(t.take('p', n => 10), null,
    'a group waits for a message that was postponed behind its head');
select t.advance('11 s');
select is(t.take('p', n => 10), 'g2',
    'a message that was postponed behind its head is delivered when it is due');
insert into pgq.message (topic, payload, dedup_key, deliver_at) values
    ('p', '"i1"', 'i', null), ('p', '"i2"', 'i', pgq.now() + interval '1 h');
select is(t.take('p', n => 10), 'i1', 'messages of one statement do not postpone each other');

-- the policy
select throws_ok($$select pgq.create_queue('x', dedup => 'newest')$$, '22023',
    'unknown dedup "newest"', 'an unknown dedup policy is refused');
select throws_ok($$select pgq.create_queue('r', dedup => 'keep')$$, 'QU002', null,
    'create_queue with another dedup policy is an error for an existing queue');
select pgq.alter_queue('r', dedup => 'keep');
select is(pgq.publish('r', '1', dedup_key => 'c'), pgq.publish('r', '2', dedup_key => 'c'),
    'a queue can be changed back to keep the first message');
select pgq.alter_queue('r', dedup => 'replace', dedup_window => '0');
select t.take('r', n => 10);
select pgq.publish('r', '3', dedup_key => 'c');
select pgq.publish('r', '4', dedup_key => 'c');
select is(t.take('r', n => 10), '3 4', 'a window of zero replaces nothing');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
