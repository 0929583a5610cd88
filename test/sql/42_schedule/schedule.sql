-- Schedules: when they run, missed runs, rights, and invalid arguments.
begin;
select no_plan();
set timezone = 'America/New_York';
select t.at('2024-03-30 12:00:10Z');
select pgq.create_queue('jobs'), pgq.create_queue('other');

-- The runs that the queue has got, as UTC, which are taken.
create function t.ran() returns text language plpgsql as $$
declare
    v_runs text;
    v_lease bigint;
begin
    select string_agg(concat_ws(' ', headers ->> 'schedule', headers ->> 'scheduled_at'), ', '
                      order by headers ->> 'schedule', id), min(lease_id)
    into v_runs, v_lease
    from pgq.claim('jobs', n => 1000);
    if v_lease is not null then
        perform pgq.ack(v_lease);
    end if;
    return v_runs;
end
$$;

-- made and run
select is(pgq.schedule('report', 'jobs', '{"kind": "report"}', cron => '30 2 * * *',
    time_zone => 'Europe/Berlin', headers => '{"tenant": "a"}', priority => 7),
    '2024-03-31 01:30Z', 'a schedule says when it runs first');
select is(t.ran(), null, 'not before');
select results_eq(
    'select topic, paused, last_at, next_at, late, time_zone, role::text, error from pgq.schedules',
    $$values ('jobs', false, null::timestamptz, '2024-03-31 01:30Z'::timestamptz,
              interval '-13:29:50', 'Europe/Berlin', null::text, null::text)$$,
    'the view shows when it will');
select t.at('2024-03-31 01:30Z');
select results_eq($$select payload, priority, headers from pgq.claim('jobs', lease => '10 years')$$,
    $$values ('{"kind": "report"}'::jsonb, 7, '{"tenant": "a", "schedule": "report",
              "scheduled_at": "2024-03-31T01:30:00Z"}'::jsonb)$$,
    'whoever claims runs it, and gets its message');
select is(t.ran(), null, 'once');
select results_eq(
    $$select last_at, last_id = (select max(id) from pgq.message), next_at from pgq.schedules$$,
    $$values ('2024-03-31 01:30Z'::timestamptz, true, '2024-04-01 00:30Z'::timestamptz)$$,
    'the view tells the last and the next run');
select t.at('2024-04-01 00:30Z');
select t.take('other');
select is((select count(*) from pgq.message where headers ->> 'schedule' = 'report'), 2::bigint,
    'whoever claims from any queue runs it');
select t.at('2024-04-02 00:31Z');
call pgq.maintain();
select is(t.ran(), 'report 2024-04-01T00:30:00Z, report 2024-04-02T00:30:00Z',
    'and so does maintain');
select t.at('2024-10-26 12:00Z');
select t.ran();
select t.at('2024-10-27 00:30Z');
select is(t.ran(), 'report 2024-10-27T00:30:00Z', 'clocks go back: it runs');
select t.at('2024-10-27 01:30Z');
select is(t.ran(), null, 'once in that night');
select ok(pgq.unschedule('report'), 'a schedule can be ended');
select ok(not pgq.unschedule('report'), 'once');
select is_empty('select from pgq.schedules', 'and is gone');

-- every
select t.at('2024-03-30 12:00:10.5Z');
select is(pgq.schedule('tick', 'jobs', '1', every => '90 s'), '2024-03-30 12:01:40Z',
    'every so often, from now on');
select t.advance('60 s');
select is(pgq.schedule('tick', 'jobs', '2', every => '90 s'), '2024-03-30 12:01:40Z',
    'the same times go on when a program schedules again');
select is((select payload from pgq.schedule), '2', 'with the new message');
select is(pgq.schedule('tick', 'jobs', '2', every => '2 min'), '2024-03-30 12:03:10Z',
    'other times begin now');
select pgq.unschedule('tick');
select t.at('2024-01-31 08:00Z');
create function t.times(every interval, zone text, n int) returns text[] language plpgsql as $$
declare
    v_after timestamptz := pgq.now();
    v_times text[] := '{}';
begin
    for i in 1 .. n loop
        v_after := pgq._every_after(every, zone, pgq.now(), v_after);
        v_times := v_times || to_char(v_after at time zone 'UTC', 'MM-DD HH24:MI');
    end loop;
    return v_times;
end
$$;
select is(t.times('1 month', 'UTC', 4), '{02-29 08:00,03-31 08:00,04-30 08:00,05-31 08:00}',
    'months are counted from the first day');
select t.at('2024-03-30 08:00Z');
select is(t.times('1 day', 'Europe/Berlin', 2), '{03-31 07:00,04-01 07:00}',
    'a day keeps the local time when clocks go forward');
select is(t.times('24 h', 'Europe/Berlin', 2), '{03-31 08:00,04-01 08:00}', '24 hours do not');
select t.at('2024-10-26 07:00Z');
select is(t.times('1 day', 'Europe/Berlin', 2), '{10-27 08:00,10-28 08:00}', 'or go back');
select is(pgq._every_after('1 day', 'UTC', '2000-01-01Z', '2030-06-01 00:00Z'), '2030-06-02Z',
    'thirty years later too');

-- missed
select t.at('2030-01-01 00:00Z');
select pgq.schedule(m, 'jobs', '1', cron => '*/10 * * * *', missed => m)
from unnest('{skip,one,all}'::text[]) m;
select t.at('2030-01-01 00:11:00Z');
select is(t.ran(), 'all 2030-01-01T00:10:00Z, one 2030-01-01T00:10:00Z, skip 2030-01-01T00:10:00Z',
    'a minute late is on time');
select t.at('2030-01-01 00:45:00Z');
select is(t.ran(), 'all 2030-01-01T00:20:00Z, all 2030-01-01T00:30:00Z, '
    'all 2030-01-01T00:40:00Z, one 2030-01-01T00:40:00Z',
    'missed runs: all of them, one for all, none');
select is((select count(distinct next_at) from pgq.schedule), 1::bigint, 'and then all go on');
select t.at('2030-01-01 01:10:01Z');
select is(t.ran(), 'all 2030-01-01T00:50:00Z, all 2030-01-01T01:00:00Z, '
    'all 2030-01-01T01:10:00Z, one 2030-01-01T01:10:00Z, skip 2030-01-01T01:10:00Z',
    'the last one is not missed');
select pgq.unschedule(name) from pgq.schedules;
select pgq.schedule(m, 'jobs', '1', every => '1 s', missed => m)
from unnest('{skip,one,all}'::text[]) m;
select t.advance('1 day');
select is((select array_agg(c order by c) from (
        select count(*) c from pgq.claim('jobs', n => 1000, lease => '1 year')
        group by headers ->> 'schedule') x),
    '{1,1,100}', 'after a long time a claim publishes a bounded number');
select is((select max(next_at) from pgq.schedule where name <> 'all'), pgq.now() + interval '1 s',
    'and does not count through what is skipped');
select is((select headers ->> 'scheduled_at' from pgq.message where headers ->> 'schedule' = 'one'
           order by id desc limit 1),
    to_char(pgq.now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    'one stands for the last run');
select pgq.unschedule(name) from pgq.schedules;

-- pause
select pgq.schedule('p', 'jobs', '1', cron => '@hourly', missed => 'all');
select ok(pgq.pause_schedule('p'), 'a schedule can be paused');
select ok(not pgq.pause_schedule('p'), 'once');
select results_eq('select paused, next_at from pgq.schedules', 'values (true, null::timestamptz)',
    'it has no next run');
select t.advance('3 h');
select is(t.ran(), null, 'and does not run');
select is(pgq.schedule('p', 'jobs', '1', cron => '@hourly', missed => 'all'), null,
    'scheduled again it stays paused');
select ok(pgq.resume_schedule('p'), 'it can go on');
select ok(not pgq.resume_schedule('p'), 'once');
select is(t.ran(), null, 'runs of the pause are not missed');
select is((select next_at > pgq.now() from pgq.schedules), true, 'the next one comes');
select throws_ok($$select pgq.pause_schedule('none')$$, '42704', 'schedule "none" does not exist',
    'pause of none');
select throws_ok($$select pgq.resume_schedule(null)$$, '42704', 'schedule "<null>" does not exist',
    'resume of none');
select pgq.unschedule('p');

-- failures
select pgq.create_queue('short');
select pgq.schedule('dead', 'short', '1', cron => '* * * * *');
select pgq.schedule('live', 'jobs', '1', cron => '* * * * *');
select pgq.drop_queue('short');
select t.advance('1 min');
set local client_min_messages = error;
select matches(t.ran(), '^live [^,]*$', 'a schedule that fails stops neither claims nor others');
reset client_min_messages;
select results_eq(
    $$select error, next_at > pgq.now(), last_at from pgq.schedules where name = 'dead'$$,
    $$values ('no queue receives topic "short"', true, null::timestamptz)$$, 'and says why');
select pgq.create_queue('short');
select t.advance('1 min');
select t.ran();
select is((select error from pgq.schedules where name = 'dead'), null, 'until it succeeds');
select is((select count(*) from pgq.claim('short', n => 9)), 1::bigint, 'and runs');
update pgq.schedule set time_zone = 'Gone/Away' where name = 'dead';
select t.advance('1 min');
set local client_min_messages = error;
select t.ran();
reset client_min_messages;
select results_eq($$select paused, error from pgq.schedules where name = 'dead'$$,
    $$values (true, 'time zone "Gone/Away" not recognized')$$, 'what cannot go on is paused');
select pgq.unschedule(name) from pgq.schedules;

-- consumers that sleep
select pgq.subscribe('many', 'jobs.#');
select pgq.wait_begin('many', 'w', '30 s'), pgq.wait_begin('other', 'w', '30 s');
select pgq.wait_begin('many', 'w', '30 s'), pgq.wait_begin('other', 'w', '30 s');
update pgq.waiter set armed = true;
select is(pgq.wait_begin('many', 'w', '30 s'), '30 s', 'without a schedule they sleep');
select pgq.schedule('s', 'jobs.x', '1', every => '5 s');
select is(pgq.wait_begin('many', 'w', '30 s') <= '5 s', true, 'until the next run that they get');
select is(pgq.wait_begin('other', 'w', '30 s'), '30 s', 'not until that of others');
select pgq.unschedule('s');
select pgq.schedule('far ' || i, 'jobs', '1', every => make_interval(secs => 5 + i))
from generate_series(1, 100) i;
select is(pgq.wait_begin('other', 'w', '3000 s') between '95 s' and '106 s', true,
    'of very many schedules only the first are read');
select pgq.unschedule(name) from pgq.schedules;

-- rights
create role schedule_publisher;
create role schedule_other;
select pgq.grant_queue('jobs', 'schedule_publisher', 'publish');
select pgq.grant_queue('other', 'schedule_other', 'publish');
select is(t.answer('schedule_publisher',
    $$select pgq.schedule('mine', 'other', '1', '* * * * *')$$),
    '42501 | permission denied for topic "other" |  | If a queue receives it, its owner can grant '
    'you the right: pgq.grant_queue(queue, role, ''publish'').',
    'who may not publish may not schedule');
select is(t.outcome('schedule_publisher',
    $$select pgq.schedule('mine', 'nowhere', '1', '* * * * *')$$),
    '42501', 'nor to what is not there');
select isnt(t.answer('schedule_publisher',
    $$select pgq.schedule('mine', 'jobs', '1', '* * * * *')$$), null,
    'who may publish may schedule');
select t.advance('1 min');
select matches(t.ran(), '^mine [^,]*$', 'it runs');
select is((select publisher from pgq.message order by id desc limit 1), 'schedule_publisher',
    'with the rights of who has scheduled it');
select is(t.answer('schedule_publisher',
    'select string_agg(name || role, '','') from pgq.schedules'),
    'mineschedule_publisher', 'who sees it');
select is(t.answer('schedule_other', 'select count(*) from pgq.schedules'), '0', 'others do not');
select is(t.outcome('schedule_other', s), '42501', 'others cannot change it: ' || s)
from unnest(array[
    $$select pgq.schedule('mine', 'other', '1', '* * * * *')$$,
    $$select pgq.unschedule('mine')$$, $$select pgq.pause_schedule('mine')$$,
    $$select pgq.resume_schedule('mine')$$]) s;
select is(t.outcome('schedule_other', $$select pgq.pause_schedule('none')$$), '42704',
    'what is not there is not there');
select is(t.outcome('schedule_publisher', s), 'ok', 'it can: ' || s) from unnest(array[
    $$select pgq.pause_schedule('mine')$$, $$select pgq.resume_schedule('mine')$$,
    $$select pgq.unschedule('mine')$$,
    $$select pgq.schedule('mine', 'jobs', '1', '* * * * *')$$]) s;
select pgq.revoke_queue('jobs', 'schedule_publisher', 'publish');
select t.advance('1 min');
set local client_min_messages = error;
select is(t.ran(), null, 'without the right it runs no more');
reset client_min_messages;
select is((select error from pgq.schedules), 'permission denied for topic "jobs"', 'and says so');
drop role schedule_publisher;
select t.advance('1 min');
set local client_min_messages = error;
select is(t.ran(), null, 'nor for a role that is gone');
reset client_min_messages;
select is((select error from pgq.schedules), 'the role of schedule "mine" does not exist',
    'and says so too');
select ok(pgq.unschedule('mine'), 'the owner can end it');

-- what is refused
select throws_ok(s, c, e, s) from (values
    ($$select pgq.schedule(null, 'jobs', '1', '@daily')$$, '22023',
     'a schedule needs a name of at most 255 characters'),
    ($$select pgq.schedule('x', 'jobs', '1')$$, '22023', 'a schedule needs either cron or every'),
    ($$select pgq.schedule('x', 'jobs', '1', '@daily', '1 h')$$, '22023',
     'a schedule needs either cron or every'),
    ($$select pgq.schedule('x', 'jobs', '1', every => '0.5 s')$$, '22023',
     'every must be at least one second, and at most 10 years'),
    ($$select pgq.schedule('x', 'jobs', '1', every => '-1 day')$$, '22023',
     'every must be at least one second, and at most 10 years'),
    ($$select pgq.schedule('x', 'jobs', '1', every => '1000000 years')$$, '22023',
     'every must be at least one second, and at most 10 years'),
    ($$select pgq.schedule('x', 'jobs', '1', every => '1 day -1 h')$$, '22023',
     'every must be at least one second, and at most 10 years'),
    ($$select pgq.schedule('x', 'jobs', '1', every => '1 month -1 day')$$, '22023',
     'every must be at least one second, and at most 10 years'),
    ($$select pgq.schedule('x', 'jobs', '1', '@daily', missed => 'maybe')$$, '22023',
     'unknown missed "maybe"'),
    ($$select pgq.schedule('x', 'jobs', '1', '@daily', time_zone => 'Berlin')$$, '22023',
     'unknown time zone "Berlin"'),
    ($$select pgq.schedule('x', 'jobs', '1', '@daily', time_zone => null)$$, '22023',
     'unknown time zone ""'),
    ($$select pgq.schedule('x', 'jobs', null, '@daily')$$, '22004', 'a message needs a payload'),
    ($$select pgq.schedule('x', 'jobs', '1', '@daily', priority => 2000)$$, '22023',
     'priority 2000 is out of range'),
    ($$select pgq.schedule('x', 'jobs', '1', '@daily', headers => '[]')$$, '22023',
     'headers must be an object of scalars'),
    ($$select pgq.schedule('x', 'jobs', '1', '@daily', expires_in => '0')$$, '22023',
     'expires_in must be longer than zero'),
    ($$select pgq.schedule('x', 'jobs', '1', '61 * * * *')$$, '22023',
     'invalid cron expression "61 * * * *": minute "61" is not between 0 and 59'),
    ($$select pgq.schedule('x', 'nowhere', '1', '@daily')$$, 'QU005',
     'no queue receives topic "nowhere"')
) r (s, c, e);
select is_empty('select from pgq.schedules', 'and nothing remains');

select * from finish();
rollback;
