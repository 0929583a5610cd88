-- Failed deliveries: backoff, dead letters, and failing writes.
begin;
select no_plan();
select t.at(now());

-- jitter and its limits, over many messages
select pgq.create_queue('work', max_attempts => 1000, backoff => '10 s', max_backoff => '1 min',
    set_size => 1, lease => '1 h');
select queue_id from pgq.queue where name = 'work' \gset
insert into pgq.message (topic, payload) select 'work', to_jsonb(i) from generate_series(1, 200) i;
do $$
begin
    for i in 1 .. 200 loop
        perform pgq.nack(lease_id) from pgq.claim('work');
    end loop;
end
$$;
select ok((select min(due_at) >= pgq.now() + interval '5 s'
                  and max(due_at) <= pgq.now() + interval '10 s'
           from pgq.scheduled), 'every first delay is between half and all of the backoff');
select cmp_ok((select count(distinct due_at) from pgq.scheduled), '>', 190::bigint,
    'the first delays differ');
select cmp_ok((select max(due_at) - min(due_at) from pgq.scheduled), '>', interval '3 s',
    'the first delays are spread over more than 3 s');
create temp table delay as
select a as attempt, r as round, null::interval as span
from unnest('{1,2,3,4,5,31,32,100,999}'::int[]) a, generate_series(1, 50) r;
do $$
declare
    v_queue pgq.queue;
    v_lease pgq.lease;
    v_try record;
begin
    select * into v_queue from pgq.queue where name = 'work';
    v_lease.grouped := false;
    select pgq.now() as claimed_at, pgq.now() as until, v_queue.queue_id as queue_id, 1 as size,
           int8multirange(int8range(min(id), min(id) + 1)) as ids
    into v_lease.claimed_at, v_lease.until, v_lease.queue_id, v_lease.size, v_lease.ids
    from pgq.message;
    for v_try in select * from delay loop
        delete from pgq.scheduled;
        v_lease.attempt := v_try.attempt;
        perform pgq._retry(v_queue, v_lease, 'nack', null, null, null, pgq.now());
        update delay set span = (select due_at - pgq.now() from pgq.scheduled)
        where attempt = v_try.attempt and round = v_try.round;
    end loop;
end
$$;
select is(
    (select bool_and(span between least(60, 10 * 2 ^ (attempt - 1)) / 2 * interval '1 s'
                          and least(60, 10 * 2 ^ (attempt - 1)) * interval '1 s') from delay),
    true, 'the delay doubles up to its limit, whatever the attempt');
delete from pgq.scheduled;
delete from pgq.journal;
select pgq.alter_queue('work', backoff => '1 year', max_backoff => '10 years');
do $$
declare
    v_queue pgq.queue;
    v_lease pgq.lease;
begin
    select * into v_queue from pgq.queue where name = 'work';
    v_lease.grouped := false;
    v_lease.claimed_at := pgq.now();
    v_lease.queue_id := v_queue.queue_id;
    v_lease.size := 1;
    v_lease.attempt := 500;
    v_lease.ids := (select int8multirange(int8range(min(id), min(id) + 1)) from pgq.message);
    perform pgq._retry(v_queue, v_lease, 'nack', null, null, null, pgq.now());
end
$$;
select ok((select due_at > pgq.now() + interval '4 years'
                  and due_at < pgq.now() + interval '11 years'
           from pgq.scheduled), 'a very long backoff can be doubled');
select pgq.drop_queue('work', force => true);

-- the record of a failure
select is(
    (pgq._failure(null, 'nack', 2, '2030-01-01 00:00:00+00', 'me', '10.0.0.1', 'oops',
                  '2030-01-01 00:00:09+00') -> 0) - '{at,claimed_at}'::text[],
    '{"outcome": "nack", "attempt": 2, "holder": "me", "client": "10.0.0.1", "error": "oops"}',
    'a failure records outcome, attempt, holder, client and error');
select is(
    jsonb_array_length(pgq._failure('[{"outcome": "nack"}]', 'timeout', 1, null, null, null, null,
                                    now())),
    2, 'the next failure is added at the end');
select is(
    length(pgq._failure(null, 'nack', 1, null, null, null, repeat('x', 5000), now())
           -> 0 ->> 'error'),
    1000, 'a long error is shortened in the history');

-- a dead-letter write that fails
select pgq.create_queue('work', lease => '10 s', max_attempts => 1);
select pgq.create_queue('news', lease => '10 s');
alter table pgq.letter add constraint obstacle check (payload <> '"poison"');
insert into pgq.message (topic, payload) values ('work', '"poison"');
select max(lease_id) as lease from pgq.claim('work') \gset
select t.advance('11 s');
select pgq.publish('work', '"fine"');
select is(t.take('work', n => 10), 'fine',
    'a claim works although an expired lease cannot become a dead letter');
select is(t.held('work', 'leased'), 'poison fine',
    'a message that cannot become a dead letter stays leased');
select is(t.held('work', 'dead'), null, 'the message is not a dead letter');
select throws_ok(format('select pgq.nack(%s)', :lease), '23514', null,
    'the last nack raises the error of the dead-letter write');
select throws_ok(format('select pgq.bury(%s)', :lease), '23514', null,
    'bury raises the error of the dead-letter write');
select is(t.held('work', 'leased'), 'poison fine',
    'the message is still leased after nack and bury have failed');
select lives_ok('call pgq.maintain()', 'maintain() works although the dead-letter write fails');
select is(t.held('work', 'leased'), 'poison fine',
    'maintain() keeps the message whose dead-letter write fails');
alter table pgq.letter drop constraint obstacle;
select t.advance('1 s');
select is(t.take('work'), null,
    'a claim after the obstacle is removed does not deliver the message again');
select is(t.held('work', 'dead'), 'poison', 'the claim makes the message a dead letter');
select is((select reason from pgq.dead_letter), 'timeout',
    'the dead letter has the reason timeout');

-- the same for an expired message
alter table pgq.letter add constraint obstacle check (payload <> '"stale"');
select pgq.publish('news', '"stale"', expires_in => '1 s');
select pgq.publish('news', '"fresh"');
select t.advance('2 s');
select is(t.take('news', n => 5), 'fresh',
    'a claim works although an expired message cannot become a dead letter');
select is(t.held('news', 'delayed'), 'stale',
    'an expired message that cannot become a dead letter is kept');
select t.advance('1 min');
select is(t.take('news', n => 5), 'fresh', 'the expired message is not delivered later');
select is(t.held('news', 'delayed'), 'stale', 'the expired message is still kept');
alter table pgq.letter drop constraint obstacle;
select t.advance('1 min');
call pgq.maintain();
select is(t.held('news', 'dead'), 'stale',
    'maintenance makes the expired message a dead letter when the write works');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
