-- Failed deliveries: backoff, dead letters, and failing writes.
begin;
select no_plan();
select t.at(now());

-- jitter and its limits, over many
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
    'and they differ');
select cmp_ok((select max(due_at) - min(due_at) from pgq.scheduled), '>', interval '3 s',
    'over the whole span');
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
           from pgq.scheduled), 'no backoff is too long to be doubled');
select pgq.drop_queue('work', force => true);

-- what a failure says
select is(
    (pgq._failure(null, 'nack', 2, '2030-01-01 00:00:00+00', 'me', '10.0.0.1', 'oops',
                  '2030-01-01 00:00:09+00') -> 0) - '{at,claimed_at}'::text[],
    '{"outcome": "nack", "attempt": 2, "holder": "me", "client": "10.0.0.1", "error": "oops"}',
    'a failure tells how, who, from where and why');
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
    'a claim goes on when an expired lease cannot become a dead letter');
select is(t.held('work', 'leased'), 'poison fine', 'the message stays where it was');
select is(t.held('work', 'dead'), null, 'it is no dead letter');
select throws_ok(format('select pgq.nack(%s)', :lease), '23514', null,
    'who refuses it for the last time sees the error');
select throws_ok(format('select pgq.bury(%s)', :lease), '23514', null, 'who buries it too');
select is(t.held('work', 'leased'), 'poison fine', 'and the message is still there');
select lives_ok('call pgq.maintain()', 'maintain goes on, too');
select is(t.held('work', 'leased'), 'poison fine', 'and loses nothing');
alter table pgq.letter drop constraint obstacle;
select t.advance('1 s');
select is(t.take('work'), null, 'when the obstacle is gone, the next claim');
select is(t.held('work', 'dead'), 'poison', 'makes the dead letter');
select is((select reason from pgq.dead_letter), 'timeout', 'with its reason');

-- the same for what has expired
alter table pgq.letter add constraint obstacle check (payload <> '"stale"');
select pgq.publish('news', '"stale"', expires_in => '1 s');
select pgq.publish('news', '"fresh"');
select t.advance('2 s');
select is(t.take('news', n => 5), 'fresh',
    'a claim goes on when an expired message cannot become a dead letter');
select is(t.held('news', 'delayed'), 'stale', 'the message is kept');
select t.advance('1 min');
select is(t.take('news', n => 5), 'fresh', 'it is tried again, and never delivered');
select is(t.held('news', 'delayed'), 'stale', 'and still kept');
alter table pgq.letter drop constraint obstacle;
select t.advance('1 min');
call pgq.maintain();
select is(t.held('news', 'dead'), 'stale', 'until it can be a dead letter');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
