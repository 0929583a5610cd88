-- Raises 22023 unless the schedule makes sense.
create or replace function pgq._check_schedule(schedule pgq.schedule) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_every interval := schedule.every;
    v_problem text;
    v_hint text;
begin
    case
        when schedule.name is null or schedule.name = '' or length(schedule.name) > 255 then
            v_problem := 'a schedule needs a name of at most 255 characters';
            v_hint := 'The same name again changes the schedule.';
        when num_nonnulls(schedule.cron, v_every) <> 1 then
            v_problem := 'a schedule needs either cron or every';
            v_hint := 'Such as cron => ''30 2 * * *'', or every => ''15 min''.';
        when v_every is not null and not pgq._is_step(v_every) then
            v_problem := format('every must be at least one second, and at most %s years',
                                pgq._limit('policy_years'));
            v_hint := 'Such as ''15 min'', ''1 day'' or ''2 weeks''.';
        when schedule.missed is null or schedule.missed not in ('skip', 'one', 'all') then
            v_problem := format('unknown missed "%s"', schedule.missed);
            v_hint := 'Use skip, one or all: what to do with missed runs.';
        -- By name: an abbreviation or an offset has no clock changes. (The view takes 50 ms.)
        when schedule.time_zone is null or schedule.time_zone <> 'UTC' and not exists (
            select from pg_timezone_names z where lower(z.name) = lower(schedule.time_zone))
        then
            v_problem := format('unknown time zone "%s"', schedule.time_zone);
            v_hint := 'Use a name of pg_timezone_names, such as Europe/Berlin or UTC.';
        when schedule.payload is null then
            perform pgq._refuse_publish(schedule.topic, '{null}', 0, null);
        when schedule.priority is null or schedule.priority not between -1000 and 1000 then
            perform pgq._refuse_publish(schedule.topic, '{}', schedule.priority, null);
        when schedule.expires_in <= interval '0' then
            perform pgq._refuse_publish(schedule.topic, '{}', 0, null);
        else
            perform pgq._refuse_message(schedule.priority, schedule.headers);
            return;
    end case;
    raise exception '%', v_problem using errcode = 'invalid_parameter_value', hint = v_hint;
end
$$;
comment on function pgq._check_schedule(pgq.schedule) is
    'Raises 22023 unless the schedule is valid.';
