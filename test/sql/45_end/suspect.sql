-- Messages that time out together are suspects. They are redelivered in smaller and smaller sets,
-- each in a claim of its own. Only a message that timed out alone becomes a dead letter.
begin;
select no_plan();
select t.at(now());

-- A worker that crashes on one message, the killer. It acknowledges every claim without the killer.
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
    $$values ('333'::jsonb, 'timeout', 4)$$,
    'only the killer among a thousand messages becomes a dead letter');
select is((select sum(size) from pgq.journal where event = 'ack'), 999::bigint,
    'the other 999 messages are acknowledged');
select is((select deaths from done), 4, 'the killer crashes four workers');
select cmp_ok((select deliveries from done), '<=', 2200,
    'there are about twice as many deliveries as messages');
select is_empty('select * from pgq.check()', 'nothing is broken');
select pgq.discard('work');

-- with one attempt
select pgq.alter_queue('work', max_attempts => 1);
select count(*) from pgq.publish_batch('work', array(select to_jsonb(i)
                                                     from generate_series(1, 50) i));
select is((select deaths from t.work('work', 50, '7')), 3,
    'the killer crashes three workers if the queue allows one attempt');
select results_eq('select payload from pgq.dead_letter', $$values ('7'::jsonb)$$,
    'only the killer becomes a dead letter if the queue allows one attempt');
select pgq.discard('work');

-- suspects are not mixed with first deliveries, whatever the size of the claim
select pgq.alter_queue('work', max_attempts => 3);
select pgq.publish('work', to_jsonb(i)) from generate_series(1, 3) i;
select is(t.take('work', n => 3), '1 2 3', 'one claim gets three messages');
select t.advance('11 s');
select pgq.publish('work', '"fresh"');
select is(t.take('work', n => 10), '1', 'the first message that timed out is redelivered alone');
select is(t.take('work', n => 10), '2',
    'the second message that timed out is redelivered before first deliveries');
select is(t.take('work', n => 10), '3',
    'the third message that timed out is redelivered without first deliveries');
select is(t.take('work', n => 10), 'fresh', 'the first delivery follows the redeliveries');
select pgq.ack(lease_id) from pgq.lease group by 1;

-- claims with a filter, named claims
select count(*) from pgq.publish_batch('work', '{1,2,3,4}',
    array_fill('{"type": "a"}'::jsonb, '{4}'));
select is(t.take('work', '{"type": "a"}', 4), '1 2 3 4',
    'a claim with a filter gets four messages');
select t.advance('11 s');
select is(t.take('work', '{"type": "a"}', 4), '1',
    'a claim with a filter gets one message that timed out');
select is((select sum(size) from pgq.hold('work', 'name', n => 4)), 1::numeric,
    'a named claim gets one message that timed out');
select is(t.take('work', '{"type": "a"}', 4), '3',
    'the next claim with a filter gets the next message that timed out');

-- a message that was nacked is not a suspect any more
select pgq.nack(lease_id, delay => '0') from pgq.lease group by 1;
select is(t.take('work', n => 10), '1 2 3', 'messages that were nacked are redelivered together');
select is(t.take('work', n => 10), '4', 'the last suspect is still redelivered alone');

-- a lease of several rows, the last with one message; and a lease that is taken back in parts
select pgq.create_queue('parts', lease => '10 s', max_attempts => 1);
select pgq.publish('parts', to_jsonb(i), priority => 3 - i) from generate_series(1, 3) i;
select is(t.take('parts', n => 3), '1 2 3', 'one claim gets messages of three priorities');
select is((select count(*) from pgq.lease join pgq.queue using (queue_id) where name = 'parts'),
    3::bigint, 'a lease of three priorities has three rows');
select t.advance('11 s');
select is(t.take('parts'), '1', 'messages that timed out together are redelivered one by one');
create function t.dead(queue text) returns text language sql as $$
    select string_agg(payload #>> '{}', ' ') from pgq.dead_letter d
    where d.queue = dead.queue $$;
select is(t.dead('parts'), null, 'messages that timed out together do not become dead letters');
select t.advance('11 s');
select is(t.take('parts'), '2', 'the second suspect is delivered');
select is(t.dead('parts'), '1', 'the first suspect is a dead letter after it has timed out alone');
select pgq.create_queue('large', lease => '10 s', max_attempts => 1);
select count(*) from pgq.publish_batch('large', array(select to_jsonb(i)
                                                      from generate_series(1, 2001) i));
select count(*) from pgq.claim('large', n => 2001);
select t.advance('11 s');
select pgq._upkeep(q, null, null, pgq.now()) from pgq.queue q where name = 'large';
select is((select sum(size) from pgq.lease join pgq.queue using (queue_id) where name = 'large'),
    1::bigint, 'one call of the upkeep takes back 2000 of 2001 messages');
select pgq._upkeep(q, null, null, pgq.now()) from pgq.queue q where name = 'large';
select is(t.dead('large'), null,
    'the second call of the upkeep does not make the last message a dead letter');
select is((select sum(size) from pgq.ready join pgq.queue using (queue_id)
           where name = 'large' and suspect), 2001::bigint, 'all 2001 messages are suspects');
select is_empty('select * from pgq.check()', 'nothing is broken');
-- in fair lanes
select pgq.create_queue('turns', lane_keys => '{k}', fair => true);
select pgq.publish('turns', to_jsonb(i), headers => jsonb_build_object('k', i % 2, 'x', 1))
from generate_series(1, 4) i;
select isnt(t.take('turns', n => 4), null, 'a claim gets messages of two lanes');
select t.advance('1 min');
select is(string_agg(cardinality(regexp_split_to_array(taken, ' ')) || '', ' '), '1 1 1 1',
    'a claim with a filter gets the suspects of two lanes one by one')
from (select t.take('turns', '{"x": 1}', n => 4) as taken from generate_series(1, 4)) x;
select is(t.take('turns', n => 4), null, 'each suspect of two lanes is redelivered once');

select * from finish();
rollback;
