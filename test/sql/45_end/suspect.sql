-- Messages that time out together are suspects. They are redelivered in smaller and smaller sets,
-- each alone. Only a message that timed out alone becomes a dead letter.
begin;
select no_plan();
select t.at(now());

-- A worker that dies of one message: it acknowledges what it gets, unless the killer is in it.
create function t.work(queue text, size int, killer jsonb, out deliveries int, out deaths int)
language plpgsql as $$
declare
    v_batch record;
    v_idle int := 0;
begin
    deliveries := 0;
    deaths := 0;
    while v_idle < 2 loop
        select c.lease_id, count(*)::int as size, bool_or(c.payload = killer) as killed
        into v_batch from pgq.claim(queue, n => size) c group by 1;
        if not found then
            v_idle := v_idle + 1;
            perform t.advance('11 s');
            continue;
        end if;
        v_idle := 0;
        deliveries := deliveries + v_batch.size;
        if v_batch.killed then
            deaths := deaths + 1;
            perform t.advance('11 s');
        else
            perform pgq.ack(v_batch.lease_id);
        end if;
    end loop;
end $$;

select pgq.create_queue('work', lease => '10 s', max_attempts => 3);
select count(*) from pgq.publish_batch('work', array(select to_jsonb(i)
                                                     from generate_series(1, 1000) i));
create temp table done as select * from t.work('work', 1000, '333');
select results_eq('select payload, reason, attempts from pgq.dead_letter',
    $$values ('333'::jsonb, 'timeout', 4)$$, 'of a thousand messages the killer dies, and alone');
select is((select sum(size) from pgq.journal where event = 'ack'), 999::bigint,
    'the others are done');
select is((select deaths from done), 4, 'it has killed four workers');
select cmp_ok((select deliveries from done), '<=', 2200, 'of about twice as many deliveries');
select is_empty('select * from pgq.check()', 'all is well');
select pgq.discard('work');

-- with one attempt
select pgq.alter_queue('work', max_attempts => 1);
select count(*) from pgq.publish_batch('work', array(select to_jsonb(i)
                                                     from generate_series(1, 50) i));
select is((select deaths from t.work('work', 50, '7')), 3,
    'with one attempt it takes three deaths');
select results_eq('select payload from pgq.dead_letter', $$values ('7'::jsonb)$$,
    'and still nobody dies but the killer');
select pgq.discard('work');

-- never mixed with fresh messages, whatever is wanted
select pgq.alter_queue('work', max_attempts => 3);
select pgq.publish('work', to_jsonb(i)) from generate_series(1, 3) i;
select is(t.take('work', n => 3), '1 2 3', 'three messages');
select t.advance('11 s');
select pgq.publish('work', '"fresh"');
select is(t.take('work', n => 10), '1', 'come back one by one');
select is(t.take('work', n => 10), '2', 'before fresh ones');
select is(t.take('work', n => 10), '3', 'and without them');
select is(t.take('work', n => 10), 'fresh', 'which come last');
select pgq.ack(lease_id) from pgq.lease group by 1;

-- by filter, by name
select count(*) from pgq.publish_batch('work', '{1,2,3,4}',
    array_fill('{"type": "a"}'::jsonb, '{4}'));
select is(t.take('work', '{"type": "a"}', 4), '1 2 3 4', 'by filter');
select t.advance('11 s');
select is(t.take('work', '{"type": "a"}', 4), '1', 'the same');
select is((select sum(size) from pgq.hold('work', 'name', n => 4)), 1::numeric, 'and by name');
select is(t.take('work', '{"type": "a"}', 4), '3', 'one after the other');

-- a delivery that was refused is none that killed
select pgq.nack(lease_id, delay => '0') from pgq.lease group by 1;
select is(t.take('work', n => 10), '1 2 3', 'what was refused is suspect no more');
select is(t.take('work', n => 10), '4', 'the last suspect still comes alone');

-- a delivery of several rows, the last of one message; and one that is taken back bit by bit
select pgq.create_queue('parts', lease => '10 s', max_attempts => 1);
select pgq.publish('parts', to_jsonb(i), priority => 3 - i) from generate_series(1, 3) i;
select is(t.take('parts', n => 3), '1 2 3', 'messages of three priorities');
select is((select count(*) from pgq.lease join pgq.queue using (queue_id) where name = 'parts'),
    3::bigint, 'have three rows in their lease');
select t.advance('11 s');
select is(t.take('parts'), '1', 'they time out together');
create function t.dead(queue text) returns text language sql as $$
    select string_agg(payload #>> '{}', ' ') from pgq.dead_letter d
    where d.queue_id = (select q.queue_id from pgq.queue q where q.name = queue) $$;
select is(t.dead('parts'), null, 'and none of them dies');
select t.advance('11 s');
select is(t.take('parts'), '2', 'the next is delivered');
select is(t.dead('parts'), '1', 'after the first has timed out alone');
select pgq.create_queue('large', lease => '10 s', max_attempts => 1);
select count(*) from pgq.publish_batch('large', array(select to_jsonb(i)
                                                      from generate_series(1, 2001) i));
select count(*) from pgq.claim('large', n => 2001);
select t.advance('11 s');
select pgq._upkeep(q, null, null, pgq.now()) from pgq.queue q where name = 'large';
select is((select sum(size) from pgq.lease join pgq.queue using (queue_id) where name = 'large'),
    1::bigint, 'one of 2001 is left to the next call');
select pgq._upkeep(q, null, null, pgq.now()) from pgq.queue q where name = 'large';
select is(t.dead('large'), null, 'which does not bury it');
select is((select sum(size) from pgq.ready join pgq.queue using (queue_id)
           where name = 'large' and suspect), 2001::bigint, 'all of them are suspect');
select is_empty('select * from pgq.check()', 'all is well');
-- in lanes that take turns
select pgq.create_queue('turns', lane_keys => '{k}', fair => true);
select pgq.publish('turns', to_jsonb(i), headers => jsonb_build_object('k', i % 2, 'x', 1))
from generate_series(1, 4) i;
select isnt(t.take('turns', n => 4), null, 'a batch of two lanes');
select t.advance('1 min');
select is(string_agg(cardinality(regexp_split_to_array(taken, ' ')) || '', ' '), '1 1 1 1',
    'times out, and its messages come back one by one, also for a filter')
from (select t.take('turns', '{"x": 1}', n => 4) as taken from generate_series(1, 4)) x;
select is(t.take('turns', n => 4), null, 'each of them once');

select * from finish();
rollback;
