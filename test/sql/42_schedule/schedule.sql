-- Schedules: when they run, missed runs, rights, and invalid arguments.
begin;
select no_plan();
set timezone = 'America/New_York';
select t.at('2024-03-30 12:00:10Z');
select pgq.create_queue('jobs'), pgq.create_queue('other');

-- Claims and acknowledges the messages of the queue. Returns their schedules and times, in UTC.
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

-- create and run
select is(pgq.schedule('report', 'jobs', '{"kind": "report"}', cron => '30 2 * * *',
    time_zone => 'Europe/Berlin', headers => '{"tenant": "a"}', priority => 7),
    '2024-03-31 01:30Z', 'schedule() returns the time of the first run');
select is(t.ran(), null, 'a schedule does not run before its time');
select results_eq(
    'select topic, paused, last_at, next_at, late, time_zone, role::text, error from pgq.schedules',
    $$values ('jobs', false, null::timestamptz, '2024-03-31 01:30Z'::timestamptz,
              interval '-13:29:50', 'Europe/Berlin', null::text, null::text)$$,
    'pgq.schedules shows the next run');
select t.at('2024-03-31 01:30Z');
select results_eq($$select payload, priority, headers from pgq.claim('jobs', lease => '10 years')$$,
    $$values ('{"kind": "report"}'::jsonb, 7, '{"tenant": "a", "schedule": "report",
              "scheduled_at": "2024-03-31T01:30:00Z"}'::jsonb)$$,
    'a claim runs a due schedule and gets its message');
select is(t.ran(), null, 'a due schedule runs once');
select results_eq(
    $$select last_at, last_id = (select max(id) from pgq.message), next_at from pgq.schedules$$,
    $$values ('2024-03-31 01:30Z'::timestamptz, true, '2024-04-01 00:30Z'::timestamptz)$$,
    'pgq.schedules shows the last and the next run');
select t.at('2024-04-01 00:30Z');
select t.take('other');
select is((select count(*) from pgq.message where headers ->> 'schedule' = 'report'), 2::bigint,
    'a claim from another queue runs a due schedule');
select t.at('2024-04-02 00:31Z');
call pgq.maintain();
select is(t.ran(), 'report 2024-04-01T00:30:00Z, report 2024-04-02T00:30:00Z',
    'maintain() runs a due schedule');
select t.at('2024-10-26 12:00Z');
select t.ran();
select t.at('2024-10-27 00:30Z');
select is(t.ran(), 'report 2024-10-27T00:30:00Z',
    'a schedule runs in the night when clocks go back');
select t.at('2024-10-27 01:30Z');
select is(t.ran(), null, 'a schedule runs only once in the night when clocks go back');
select ok(pgq.unschedule('report'), 'unschedule removes a schedule');
select ok(not pgq.unschedule('report'), 'unschedule returns false for a schedule that was removed');
select is_empty('select from pgq.schedules',
    'pgq.schedules does not list a schedule that was removed');

-- every
select t.at('2024-03-30 12:00:10.5Z');
select is(pgq.schedule('tick', 'jobs', '1', every => '90 s'), '2024-03-30 12:01:40Z',
    'the first run of an interval is one interval from now');
select t.advance('60 s');
select is(pgq.schedule('tick', 'jobs', '2', every => '90 s'), '2024-03-30 12:01:40Z',
    'the same interval keeps its times when a program schedules again');
select is((select payload from pgq.schedule), '2', 'scheduling again replaces the message');
select is(pgq.schedule('tick', 'jobs', '2', every => '2 min'), '2024-03-30 12:03:10Z',
    'a changed interval starts from now');
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
    'months are counted from the start, so a short month does not shift later runs');
select t.at('2024-03-30 08:00Z');
select is(t.times('1 day', 'Europe/Berlin', 2), '{03-31 07:00,04-01 07:00}',
    'an interval of a day keeps the local time when clocks go forward');
select is(t.times('24 h', 'Europe/Berlin', 2), '{03-31 08:00,04-01 08:00}',
    'an interval of 24 hours does not keep the local time');
select t.at('2024-10-26 07:00Z');
select is(t.times('1 day', 'Europe/Berlin', 2), '{10-27 08:00,10-28 08:00}',
    'an interval of a day keeps the local time when clocks go back');
select is(pgq._every_after('1 day', 'UTC', '2000-01-01Z', '2030-06-01 00:00Z'), '2030-06-02Z',
    'the next run is correct thirty years after the start');

-- missed
select t.at('2030-01-01 00:00Z');
select pgq.schedule(m, 'jobs', '1', cron => '*/10 * * * *', missed => m)
from unnest('{skip,one,all}'::text[]) m;
select t.at('2030-01-01 00:11:00Z');
select is(t.ran(), 'all 2030-01-01T00:10:00Z, one 2030-01-01T00:10:00Z, skip 2030-01-01T00:10:00Z',
    'a run that is one minute late is not missed');
select t.at('2030-01-01 00:45:00Z');
select is(t.ran(), 'all 2030-01-01T00:20:00Z, all 2030-01-01T00:30:00Z, '
    'all 2030-01-01T00:40:00Z, one 2030-01-01T00:40:00Z',
    'missed runs are published all, as one, or not at all');
select is((select count(distinct next_at) from pgq.schedule), 1::bigint,
    'the three schedules have the same next run');
select t.at('2030-01-01 01:10:01Z');
select is(t.ran(), 'all 2030-01-01T00:50:00Z, all 2030-01-01T01:00:00Z, '
    'all 2030-01-01T01:10:00Z, one 2030-01-01T01:10:00Z, skip 2030-01-01T01:10:00Z',
    'the last due run is not missed');
select pgq.unschedule(name) from pgq.schedules;
select pgq.schedule(m, 'jobs', '1', every => '1 s', missed => m)
from unnest('{skip,one,all}'::text[]) m;
select t.advance('1 day');
select is((select array_agg(c order by c) from (
        select count(*) c from pgq.claim('jobs', n => 1000, lease => '1 year')
        group by headers ->> 'schedule') x),
    '{1,1,100}', 'a claim publishes a limited number of runs that were missed');
select is((select max(next_at) from pgq.schedule where name <> 'all'), pgq.now() + interval '1 s',
    'schedules that skip missed runs continue one interval from now');
select is((select headers ->> 'scheduled_at' from pgq.message where headers ->> 'schedule' = 'one'
           order by id desc limit 1),
    to_char(pgq.now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    'the one message for all missed runs has the time of the last run');
select pgq.unschedule(name) from pgq.schedules;

-- pause
select pgq.schedule('p', 'jobs', '1', cron => '@hourly', missed => 'all');
select ok(pgq.pause_schedule('p'), 'a schedule can be paused');
select ok(not pgq.pause_schedule('p'), 'pausing a paused schedule returns false');
select results_eq('select paused, next_at from pgq.schedules', 'values (true, null::timestamptz)',
    'a paused schedule has no next run');
select t.advance('3 h');
select is(t.ran(), null, 'a paused schedule does not run');
select is(pgq.schedule('p', 'jobs', '1', cron => '@hourly', missed => 'all'), null,
    'a paused schedule stays paused when it is scheduled again');
select ok(pgq.resume_schedule('p'), 'a paused schedule can be resumed');
select ok(not pgq.resume_schedule('p'), 'resuming an active schedule returns false');
select is(t.ran(), null, 'runs during a pause do not count as missed');
select is((select next_at > pgq.now() from pgq.schedules), true,
    'a resumed schedule has a next run');
select throws_ok($$select pgq.pause_schedule('none')$$, '42704', 'schedule "none" does not exist',
    'pausing an unknown schedule is an error');
select throws_ok($$select pgq.resume_schedule(null)$$, '42704', 'schedule "<null>" does not exist',
    'resuming a schedule without a name is an error');
select pgq.unschedule('p');

-- failures
select pgq.create_queue('short');
select pgq.schedule('dead', 'short', '1', cron => '* * * * *');
select pgq.schedule('live', 'jobs', '1', cron => '* * * * *');
select pgq.drop_queue('short');
select t.advance('1 min');
set local client_min_messages = error;
select matches(t.ran(), '^live [^,]*$',
    'a schedule that fails stops neither claims nor other schedules');
reset client_min_messages;
select results_eq(
    $$select error, next_at > pgq.now(), last_at from pgq.schedules where name = 'dead'$$,
    $$values ('no queue receives topic "short"', true, null::timestamptz)$$,
    'pgq.schedules shows why a schedule fails');
select pgq.create_queue('short');
select t.advance('1 min');
select t.ran();
select is((select error from pgq.schedules where name = 'dead'), null,
    'pgq.schedules shows no error after the schedule has succeeded');
select is((select count(*) from pgq.claim('short', n => 9)), 1::bigint,
    'a schedule that failed runs again');
update pgq.schedule set time_zone = 'Gone/Away' where name = 'dead';
select t.advance('1 min');
set local client_min_messages = error;
select t.ran();
reset client_min_messages;
select results_eq($$select paused, error from pgq.schedules where name = 'dead'$$,
    $$values (true, 'time zone "Gone/Away" not recognized')$$,
    'a schedule with an unknown time zone is paused');
select pgq.unschedule(name) from pgq.schedules;

-- consumers that sleep
select pgq.subscribe('many', 'jobs.#');
select pgq.wait_begin('many', 'w', '30 s'), pgq.wait_begin('other', 'w', '30 s');
select pgq.wait_begin('many', 'w', '30 s'), pgq.wait_begin('other', 'w', '30 s');
update pgq.waiter set armed = true;
select is(pgq.wait_begin('many', 'w', '30 s'), '30 s',
    'a consumer sleeps as long as it asked for if there is no schedule');
select pgq.schedule('s', 'jobs.x', '1', every => '5 s');
select is(pgq.wait_begin('many', 'w', '30 s') <= '5 s', true,
    'a consumer sleeps at most until the next run that its queue receives');
select is(pgq.wait_begin('other', 'w', '30 s'), '30 s',
    'the runs of other queues do not shorten the sleep of a consumer');
select pgq.unschedule('s');
select pgq.schedule('far ' || i, 'jobs', '1', every => make_interval(secs => 5 + i))
from generate_series(1, 100) i;
select is(pgq.wait_begin('other', 'w', '3000 s') between '95 s' and '106 s', true,
    'only the first of very many schedules are read, and the sleep ends with the last of them');
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
    'a role without the right to publish cannot schedule');
select is(t.outcome('schedule_publisher',
    $$select pgq.schedule('mine', 'nowhere', '1', '* * * * *')$$),
    '42501', 'a role gets the same error for an unknown topic');
select isnt(t.answer('schedule_publisher',
    $$select pgq.schedule('mine', 'jobs', '1', '* * * * *')$$), null,
    'a role with the right to publish can schedule');
select t.advance('1 min');
select matches(t.ran(), '^mine [^,]*$', 'the schedule of a role runs');
select is((select publisher from pgq.message order by id desc limit 1), 'schedule_publisher',
    'the role that made a schedule is the publisher of its messages');
select is(t.answer('schedule_publisher',
    'select string_agg(name || role, '','') from pgq.schedules'),
    'mineschedule_publisher', 'a role sees its own schedule');
select is(t.answer('schedule_other', 'select count(*) from pgq.schedules'), '0',
    'a role does not see the schedule of another role');
select is(t.outcome('schedule_other', s), '42501', 'another role cannot change the schedule: ' || s)
from unnest(array[
    $$select pgq.schedule('mine', 'other', '1', '* * * * *')$$,
    $$select pgq.unschedule('mine')$$, $$select pgq.pause_schedule('mine')$$,
    $$select pgq.resume_schedule('mine')$$]) s;
select is(t.outcome('schedule_other', $$select pgq.pause_schedule('none')$$), '42704',
    'any role gets the error that an unknown schedule does not exist');
select is(t.outcome('schedule_publisher', s), 'ok',
    'a role can change its own schedule: ' || s) from unnest(array[
    $$select pgq.pause_schedule('mine')$$, $$select pgq.resume_schedule('mine')$$,
    $$select pgq.unschedule('mine')$$,
    $$select pgq.schedule('mine', 'jobs', '1', '* * * * *')$$]) s;
select pgq.revoke_queue('jobs', 'schedule_publisher', 'publish');
select t.advance('1 min');
set local client_min_messages = error;
select is(t.ran(), null, 'a schedule does not run after its role has lost the right to publish');
reset client_min_messages;
select is((select error from pgq.schedules), 'permission denied for topic "jobs"',
    'pgq.schedules shows that the role lacks the right');
drop role schedule_publisher;
select t.advance('1 min');
set local client_min_messages = error;
select is(t.ran(), null, 'a schedule does not run after its role was dropped');
reset client_min_messages;
select is((select error from pgq.schedules), 'the role of schedule "mine" does not exist',
    'pgq.schedules shows that the role does not exist');
select ok(pgq.unschedule('mine'), 'the owner can remove the schedule of a dropped role');

-- invalid arguments
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
select is_empty('select from pgq.schedules', 'refused schedules are not stored');

select * from finish();
rollback;
