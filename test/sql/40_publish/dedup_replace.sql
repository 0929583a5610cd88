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
select isnt(:new::bigint, :old::bigint, 'a second message is another one');
select is(t.take('r', n => 10), 'other new', 'and replaces the first, which waits');
select is((select array_agg(event || coalesce(': ' || note, '') order by at, event desc)
           from pgq.history(:old)), array['replace: by message ' || :new, 'publish: r'],
    'the history of the first says by what');
select is((select state from pgq.result(:old)), 'done', 'nobody waits for its result any more');
select pgq.publish('r', '"newer"', dedup_key => 'k');
select is(t.take('r', n => 10), 'newer',
    'a message that is leased is not replaced: the new one is delivered too');
select pgq.publish('r', '"a"', dedup_key => 'k');
select pgq.nack((select lease_id from pgq.claim('r')), delay => '0');
select pgq.publish('r', '"b"', dedup_key => 'k');
select is(t.take('r', n => 10), 'a b', 'nor is one that was delivered before');

-- delays: the newest with its own time (debounce)
select pgq.publish('r', '"d1"', dedup_key => 'd', delay => '10 s');
select t.advance('9 s');
select pgq.publish('r', '"d2"', dedup_key => 'd', delay => '10 s');
select t.advance('9 s');
select is(t.take('r', n => 10), null, 'a delayed message is replaced before its time');
select pgq.publish('r', '"d3"', dedup_key => 'd', delay => '10 s');
select t.advance('11 s');
select is(t.take('r', n => 10), 'd3', 'so it is quiet until the last one is due');
select pgq.publish('r', '"h1"', dedup_key => 'h', delay => '1 h');
select t.advance('50 min');
select pgq.publish('r', '"h2"', dedup_key => 'h', delay => '1 h');
select t.advance('61 min');
select is(t.take('r', n => 10), 'h2', 'the window begins when the message is due');
select pgq.publish('r', '"w1"', dedup_key => 'w');
select t.advance('6 min');
select pgq.publish('r', '"w2"', dedup_key => 'w');
select is(t.take('r', n => 10), 'w1 w2', 'after the window a message is not replaced');
-- a delayed one that has become due, and one that an operator has moved
select pgq.publish('r', '"e1"', dedup_key => 'e', delay => '1 s');
select t.advance('2 s');
select pgq.publish('r', '"first"', priority => 5);
select is(t.take('r'), 'first', 'what is due becomes ready with the next claim');
select pgq.publish('r', '"e2"', dedup_key => 'e', delay => '1 min');
select is((select count(*) from pgq.message_state where queue = 'r' and state <> 'leased'),
    1::bigint, 'it is replaced there');
select pgq.reschedule('r', at => pgq.now() + interval '2 min');
select pgq.publish('r', '"e3"', dedup_key => 'e');
select t.advance('3 min');
select is(t.take('r', n => 10), 'e3', 'and where an operator has put it');

-- batches, INSERT
create temp table ids as
select i, ordinality as n from pgq.publish_batch(
    'r', array['"b1"', '"b2"', '"b3"', '"b4"']::jsonb[],
    dedup_keys => array['x', 'y', 'x', null]) with ordinality i;
select is((select array_agg(i - (select min(i) from ids) order by n) from ids),
    '{1,0,1,2}'::bigint[], 'a batch returns the ids of those that stay');
insert into pgq.message (topic, payload, dedup_key) values
    ('r', '"i1"', 'y'), ('r', '"i2"', 'z'), ('r', '"i3"', 'z'), ('r', '"i4"', null);
select is(t.take('r', n => 10), 'b3 b4 i1 i3 i4',
    'within a statement the last stays, over statements as well');
-- A statement with many messages of few keys: each key is settled once. Rows of pgq.dedup that are
-- changed by every message would make such a statement slow, with the square of their number.
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
select is(pg_temp.changes() - :changes, 1::bigint, 'only the key that was there is changed');
select is(t.take('r', n => 1000), '598 599 600', 'the last of each key stays');
select is((select array_agg(distinct h.note) from pgq.history((select min(id) from few)) h
           where h.event = 'replace'),
    array['by message ' || (select max(id) - 2 from few)], 'the others say which that is');
insert into pgq.message (topic, payload, dedup_key, deliver_at)
select 'p', to_jsonb(i), 'few' || i % 3, pgq.now() + i * interval '1 s'
from generate_series(1, 30) i;
insert into pgq.message (topic, payload, dedup_key, deliver_at)
select 'p', to_jsonb(i), 'few' || i % 3, pgq.now() + (100 - i) * interval '1 s'
from generate_series(31, 60) i;
select t.advance('68 s');
select is(t.take('p', n => 1000), '2 3', 'a queue that postpones keeps the first of each key');
select t.advance('1 s');
select is(t.take('p', n => 1000), '1', 'each until the latest time that a statement says');

-- groups
select pgq.publish('r', '"g1"', group_key => 'g', dedup_key => 'g1');
select pgq.publish('r', '"g2"', group_key => 'g', dedup_key => 'g2');
select pgq.publish('r', '"g3"', group_key => 'g', dedup_key => 'g3');
select pgq.publish('r', '"g2 new"', group_key => 'g', dedup_key => 'g2');
select pgq.publish('r', '"g1 new"', group_key => 'g', dedup_key => 'g1');
select is(pg_temp.drain('r'), 'g3, g2 new, g1 new',
    'a group goes on without its head and without one in line');

-- subscriptions with filters
select pgq.create_queue('own', dedup => 'keep', lease => '1 day');
select pgq.create_queue('some', dedup => 'replace', lease => '1 day');
select pgq.subscribe('some', 'own', '{"kind": "a"}');
select pgq.publish('own', '"m1"', '{"kind": "a"}', dedup_key => 'k') as m1 \gset
select isnt(pgq.publish('own', '"m2"', '{"kind": "b"}', dedup_key => 'k'), :m1::bigint,
    'what one queue may want is stored');
select is(t.take('own', n => 10), 'm1', 'a queue that keeps the first has the first');
select pgq.publish('own', '"m3"', '{"kind": "a"}', dedup_key => 'k');
select is(t.take('some', n => 10), 'm3', 'one that replaces has the last that it receives');
select is(t.take('own', n => 10), null, 'each queue by its own policy');

-- postpone
select pgq.publish('p', '"first"', dedup_key => 'k', delay => '10 s') as first \gset
select t.advance('9 s');
select is(pgq.publish('p', '"second"', dedup_key => 'k', delay => '10 s'), :first::bigint,
    'a queue that postpones keeps the first message');
select t.advance('9 s');
select is(t.take('p', n => 10), null, 'which waits until the second is due');
select is(pgq.publish('p', '"third"', dedup_key => 'k', delay => '1 s'), :first::bigint,
    'it has the key as long as it waits');
select t.advance('1 s');
select is(t.take('p', n => 10), 'first', 'and is delivered then');
select matches((select note from pgq.history(:first) where event = 'postpone' limit 1),
    '^message ' || :first || ' until ', 'the history says so');
select pgq.publish('p', '"fourth"', dedup_key => 'k', delay => '10 s');
select t.advance('11 s');
select is(t.take('p', n => 10), 'fourth', 'a message that was delivered is not postponed');
select pgq.publish('p', '"far"', dedup_key => 'far', delay => '1 min');
select pgq.publish('p', '"near"', dedup_key => 'far');
select is(t.take('p', n => 10), null, 'no message becomes due earlier');
select t.advance('61 s');
select is(t.take('p', n => 10), 'far', 'than it was');
select pgq.publish('p', '"r1"', dedup_key => 'r');
select pgq.publish('p', '"r2"', dedup_key => 'r', delay => '5 s');
select is(t.take('p', n => 10), null, 'one that is ready waits again');
select t.advance('6 s');
select is(t.take('p', n => 10), 'r1', 'until the second is due');
select pgq.publish('p', '"s1"', dedup_key => 's');
select pgq.publish('p', '"s2"', dedup_key => 's');
select is(t.take('p', n => 10), 's1', 'without a delay it stays where it is');
select pgq.publish('p', '"g1"', group_key => 'g', dedup_key => 'g1');
select pgq.publish('p', '"g2"', group_key => 'g', dedup_key => 'g2');
select pgq.publish('p', '"g2 again"', group_key => 'g', dedup_key => 'g2', delay => '10 s');
select is(pg_temp.drain('p'), 'g1', 'a group');
select is(t.take('p', n => 10), null, 'waits for its next');
select t.advance('11 s');
select is(t.take('p', n => 10), 'g2', 'that was postponed in line');
insert into pgq.message (topic, payload, dedup_key, deliver_at) values
    ('p', '"i1"', 'i', null), ('p', '"i2"', 'i', pgq.now() + interval '1 h');
select is(t.take('p', n => 10), 'i1', 'messages of one statement do not postpone each other');

-- the policy
select throws_ok($$select pgq.create_queue('x', dedup => 'newest')$$, '22023',
    'unknown dedup "newest"', 'another word is refused');
select throws_ok($$select pgq.create_queue('r', dedup => 'keep')$$, 'QU002', null,
    'it is a part of the policy');
select pgq.alter_queue('r', dedup => 'keep');
select is(pgq.publish('r', '1', dedup_key => 'c'), pgq.publish('r', '2', dedup_key => 'c'),
    'a queue can keep the first again');
select pgq.alter_queue('r', dedup => 'replace', dedup_window => '0');
select t.take('r', n => 10);
select pgq.publish('r', '3', dedup_key => 'c');
select pgq.publish('r', '4', dedup_key => 'c');
select is(t.take('r', n => 10), '3 4', 'a window of zero replaces nothing');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
