-- The first local time after the given one that a cron expression chooses.
create or replace function pgq._cron_local(cron pgq._cron, after timestamp) returns timestamp
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_day date := after::date;
    v_hour int := extract(hour from after)::int;
    v_minute int := extract(minute from after)::int;
    v_next int;
    v_chosen boolean[];  -- the day, the weekday
begin
    -- 29 February may be eight years away.
    while v_day < after + interval '9 years' loop
        if extract(month from v_day)::int <> all (cron.months) then
            v_day := (date_trunc('month', v_day::timestamp) + interval '1 month')::date;
            v_hour := -1;
            continue;
        end if;
        v_chosen := array[extract(day from v_day)::int = any (cron.days),
                          extract(dow from v_day)::int = any (cron.weekdays)];
        if true = all (v_chosen) or cron.either and true = any (v_chosen) then
            if v_hour = any (cron.hours) then
                v_next := (select min(m) from unnest(cron.minutes) m where m > v_minute);
                if v_next is not null then
                    return v_day + make_interval(hours => v_hour, mins => v_next);
                end if;
            end if;
            v_next := (select min(h) from unnest(cron.hours) h where h > v_hour);
            if v_next is not null then
                return v_day + make_interval(hours => v_next, mins => cron.minutes[1]);
            end if;
        end if;
        v_day := v_day + 1;
        v_hour := -1;
    end loop;
    return null;
end
$$;
comment on function pgq._cron_local(pgq._cron, timestamp) is
    'The next local time of a cron expression.';
