-- The first moment after the given one that is a whole number of intervals after the start. Days
-- and months are those of the time zone's calendar, so that a day has 23 to 25 hours.
create or replace function pgq._every_after(
    every interval, time_zone text, start timestamptz, after timestamptz
) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_months int;
    v_days int;
    v_time interval;
    v_most float8;
    v_count bigint;
    v_at timestamptz;
begin
    if pgq._is_step(every) is not true then  -- stored past the check: the loop would not end
        raise exception 'every is out of range: %', every
            using errcode = 'invalid_parameter_value', hint = 'Schedule it again.';
    end if;
    v_months := (extract(year from every) * 12 + extract(month from every))::int;
    v_days := extract(day from every)::int;
    v_time := every - make_interval(months => v_months, days => v_days);
    -- No step is longer: months of 31 days, days of 25 hours.
    v_most := (v_months * 31 + v_days) * 90000 + extract(epoch from v_time)::float8;
    v_count := greatest(1, floor(extract(epoch from after - start)::float8 / v_most))::bigint;
    loop
        v_at := case when v_months = 0 and v_days = 0 then start
                else (start at time zone time_zone
                      + make_interval(months => (v_months * v_count)::int,
                                      days => (v_days * v_count)::int)) at time zone time_zone
                end + v_time * v_count;
        exit when v_at > after;
        v_count := v_count + 1;
    end loop;
    return v_at;
end
$$;
comment on function pgq._every_after(interval, text, timestamptz, timestamptz) is
    'The next time that is a whole number of intervals after the start.';
