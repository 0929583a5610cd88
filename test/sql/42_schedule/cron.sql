-- Cron expressions: the times that they select, also when clocks change, and invalid ones.
begin;
select no_plan();
set timezone = 'America/New_York';  -- the zone of the session must not matter

-- The next n runs after a time, in UTC.
create function t.runs(cron text, zone text, after timestamptz, n int) returns text[]
language plpgsql as $$
declare
    v_runs text[] := '{}';
begin
    for i in 1 .. n loop
        after := pgq._cron_after(pgq._cron_parse(cron), zone, after);
        v_runs := v_runs || to_char(after at time zone 'UTC', 'MM-DD HH24:MI');
    end loop;
    return v_runs;
end
$$;

-- fields
select is(t.runs('* * * * *', 'UTC', '2030-01-01 23:58:30Z', 3),
    '{01-01 23:59,01-02 00:00,01-02 00:01}', 'every minute');
select is(t.runs('*/20 3-4 * * *', 'UTC', '2030-01-01 03:20Z', 4),
    '{01-01 03:40,01-01 04:00,01-01 04:20,01-01 04:40}', 'steps and ranges');
select is(t.runs('5,35 */12 * * *', 'UTC', '2030-01-01 00:00Z', 3),
    '{01-01 00:05,01-01 00:35,01-01 12:05}', 'lists, and steps of *');
select is(t.runs('0 9-17/4 * * *', 'UTC', '2030-01-01 00:00Z', 4),
    '{01-01 09:00,01-01 13:00,01-01 17:00,01-02 09:00}', 'steps in a range');
select is(t.runs('50/4 0 * * *', 'UTC', '2030-01-01 00:00Z', 4),
    '{01-01 00:50,01-01 00:54,01-01 00:58,01-02 00:50}', 'steps that start at a number');
select is(t.runs('0 0 * feb,JUN-jul *', 'UTC', '2030-02-27Z', 4),
    '{02-28 00:00,06-01 00:00,06-02 00:00,06-03 00:00}', 'names of months');
select is(t.runs('0 12 * * mon-FRI', 'UTC', '2030-01-03 13:00Z', 3),
    '{01-04 12:00,01-07 12:00,01-08 12:00}', 'names of weekdays');
select is(t.runs('0 12 * * fri-sun', 'UTC', '2030-01-01Z', 4),
    '{01-04 12:00,01-05 12:00,01-06 12:00,01-11 12:00}', 'a range up to Sunday');
select is(t.runs('0 0 * * 7', 'UTC', '2030-01-01Z', 2),
    t.runs('0 0 * * 0', 'UTC', '2030-01-01Z', 2), '0 and 7 are Sunday');
select is(t.runs('0 0 13 * 5', 'UTC', '2030-01-10Z', 4),
    '{01-11 00:00,01-13 00:00,01-18 00:00,01-25 00:00}',
    'a day or a weekday must match if both are restricted');
select is(t.runs('0 0 */2 * 2', 'UTC', '2030-01-01Z', 3),
    '{01-15 00:00,01-29 00:00,02-05 00:00}',
    'a day and a weekday must match if one of them begins with *');
select is(t.runs('0 0 31 * *', 'UTC', '2030-01-31Z', 3),
    '{03-31 00:00,05-31 00:00,07-31 00:00}', 'months without the chosen day are skipped');
select is(pgq._cron_after(pgq._cron_parse('0 0 29 2 *'), 'UTC', '2096-03-01Z'),
    '2104-02-29Z', 'a leap day may be eight years away');
select is(t.runs('@hourly', 'UTC', '2030-01-01Z', 1) || t.runs('@daily', 'UTC', '2030-01-01Z', 1)
    || t.runs('@midnight', 'UTC', '2030-01-01Z', 1) || t.runs('@weekly', 'UTC', '2030-01-01Z', 1)
    || t.runs('@monthly', 'UTC', '2030-01-01Z', 1) || t.runs('@yearly', 'UTC', '2030-01-01Z', 1)
    || t.runs('@annually', 'UTC', '2030-01-01Z', 1),
    '{01-01 01:00,01-02 00:00,01-02 00:00,01-06 00:00,02-01 00:00,01-01 00:00,01-01 00:00}',
    'names such as @daily');
select is(t.runs('  0   4 * *   * ', 'UTC', '2030-01-01Z', 1), '{01-01 04:00}',
    'extra spaces are ignored');

-- zones
select is(t.runs('30 2 * * *', 'Asia/Kolkata', '2030-01-01Z', 2), '{01-01 21:00,01-02 21:00}',
    'times are local times of the time zone');
-- In Berlin clocks went from 02:00 to 03:00 at 01:00 UTC on 31 March 2024.
select is(t.runs('30 2 * * *', 'Europe/Berlin', '2024-03-29 12:00Z', 3),
    '{03-30 01:30,03-31 01:30,04-01 00:30}',
    'a local time that a clock change skips runs once, an hour later');
select is(t.runs('*/30 * * * *', 'Europe/Berlin', '2024-03-31 00:15Z', 4),
    '{03-31 00:30,03-31 01:00,03-31 01:30,03-31 02:00}',
    'a schedule of every half hour runs every half hour when clocks go forward');
select is(t.runs('0 1,2,3,4 * * *', 'Europe/Berlin', '2024-03-30 23:15Z', 3),
    '{03-31 00:00,03-31 01:00,03-31 02:00}',
    'a skipped hour that coincides with the next one runs once');
select is(t.runs('50 2,3 * * *', 'Europe/Berlin', '2024-03-30 23:15Z', 2),
    '{03-31 01:50,04-01 00:50}',
    'a skipped time that coincides with a later one runs once, whatever the minute');
select is(t.runs('10 3 31 3 *', 'Europe/Berlin', '2024-03-31 00:59Z', 1), '{03-31 01:10}',
    'a time right after a clock change runs');
-- And from 03:00 back to 02:00 at 01:00 UTC on 27 October 2024.
select is(t.runs('30 2 * * *', 'Europe/Berlin', '2024-10-25 12:00Z', 3),
    '{10-26 00:30,10-27 00:30,10-28 01:30}', 'a local time that occurs twice runs once');
select is(t.runs('*/30 * * * *', 'Europe/Berlin', '2024-10-27 00:15Z', 5),
    '{10-27 00:30,10-27 01:00,10-27 01:30,10-27 02:00,10-27 02:30}',
    'a schedule of every half hour runs in both hours when clocks go back');
select is(t.runs('0 1-3 * * *', 'Europe/Berlin', '2024-10-26 22:15Z', 4),
    '{10-26 23:00,10-27 00:00,10-27 02:00,10-28 00:00}',
    'each hour of a range runs once when clocks go back');
select is(t.runs('15,45 * * * *', 'Australia/Lord_Howe', '2024-04-06 14:00Z', 5),
    '{04-06 14:15,04-06 14:45,04-06 15:15,04-06 15:45,04-06 16:15}',
    'a schedule of every half hour keeps its interval when clocks change by half an hour');
select is(
    (select count(distinct r)
     from unnest(t.runs('0 3 * * *', 'America/New_York', '2024-01-01Z', 366)) r),
    366::bigint, 'a daily schedule has 366 different runs in a leap year');
select is(
    (select max(cardinality(t.runs('7 5 * * 1', z, '2024-01-01Z', 3))) from unnest(
        '{UTC,Asia/Tokyo,Africa/Casablanca,Antarctica/Troll,Pacific/Apia}'::text[]) z),
    3, 'runs can be calculated in unusual time zones');

-- invalid expressions
select throws_ok(format('select pgq._cron_parse(%L)', c), '22023', e, coalesce(c, 'null'))
from (values
    ('', 'invalid cron expression "": it has 0 fields, not five'),
    ('* * * *', 'invalid cron expression "* * * *": it has 4 fields, not five'),
    ('0 * * * * *', 'invalid cron expression "0 * * * * *": it has 6 fields, not five'),
    ('60 * * * *', 'invalid cron expression "60 * * * *": minute "60" is not between 0 and 59'),
    ('0 24 * * *', 'invalid cron expression "0 24 * * *": hour "24" is not between 0 and 23'),
    ('0 0 0 * *', 'invalid cron expression "0 0 0 * *": day "0" is not between 1 and 31'),
    ('0 0 * 13 *', 'invalid cron expression "0 0 * 13 *": month "13" is not between 1 and 12'),
    ('0 0 * * 8', 'invalid cron expression "0 0 * * 8": weekday "8" is not between 0 and 7'),
    ('0 0 * * noday', 'invalid cron expression "0 0 * * noday": "noday" is no weekday'),
    ('mon * * * *', 'invalid cron expression "mon * * * *": "mon" is no minute'),
    ('5-1 * * * *', 'invalid cron expression "5-1 * * * *": "5-1" begins after its end'),
    ('*/0 * * * *',
     'invalid cron expression "*/0 * * * *": the step of "*/0" is not between 1 and 59'),
    ('1,,2 * * * *', 'invalid cron expression "1,,2 * * * *": "" is no minute'),
    ('-1 * * * *', 'invalid cron expression "-1 * * * *": "-1" is no minute'),
    ('99999999999 * * * *',
     'invalid cron expression "99999999999 * * * *": "99999999999" is no minute'),
    ('0 0 30 2 *', 'invalid cron expression "0 0 30 2 *": no chosen month has such a day'),
    ('0 0 31 4,6,9,11 *',
     'invalid cron expression "0 0 31 4,6,9,11 *": no chosen month has such a day'),
    ('@reboot', 'invalid cron expression "@reboot": no such name'),
    ('every day', 'invalid cron expression "every day": it has 2 fields, not five')
) r (c, e);
select is(t.runs('0 0 30 2 1', 'UTC', '2030-01-01Z', 1), '{02-04 00:00}',
    'a day that never occurs is accepted together with a weekday');

select * from finish();
rollback;
