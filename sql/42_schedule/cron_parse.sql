-- Parses a cron expression; 22023 if it makes no sense or names a day that does not exist.
create or replace function pgq._cron_parse(cron text) returns pgq._cron
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_text text := case lower(btrim(cron))
        when '@hourly' then '0 * * * *'
        when '@daily' then '0 0 * * *'
        when '@midnight' then '0 0 * * *'
        when '@weekly' then '0 0 * * 0'
        when '@monthly' then '0 0 1 * *'
        when '@yearly' then '0 0 1 1 *'
        when '@annually' then '0 0 1 1 *'
        else btrim(cron)
    end;
    v_fields text[] := regexp_split_to_array(v_text, E'\\s+');
    v_cron pgq._cron;
begin
    if v_text ~ '^@' then
        raise exception 'invalid cron expression "%": no such name', cron
            using errcode = 'invalid_parameter_value',
                  hint = 'Use @hourly, @daily, @weekly, @monthly or @yearly, or five fields.';
    end if;
    if cardinality(v_fields) <> 5 or v_text = '' then
        raise exception 'invalid cron expression "%": it has % fields, not five', cron,
            case when v_text = '' then 0 else cardinality(v_fields) end
            using errcode = 'invalid_parameter_value',
                  hint = 'They are minute, hour, day, month and weekday. For seconds use every.';
    end if;
    v_cron.minutes := pgq._cron_field(cron, v_fields[1], 'minute', 0, 59);
    v_cron.hours := pgq._cron_field(cron, v_fields[2], 'hour', 0, 23);
    v_cron.days := pgq._cron_field(cron, v_fields[3], 'day', 1, 31);
    v_cron.months := pgq._cron_field(cron, v_fields[4], 'month', 1, 12,
        '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}');
    v_cron.weekdays := pgq._cron_field(cron, v_fields[5], 'weekday', 0, 7,
        '{sun,mon,tue,wed,thu,fri,sat}');
    v_cron.either := left(v_fields[3], 1) <> '*' and left(v_fields[5], 1) <> '*';
    -- Each month has 28 days; a later day has to exist in one of the chosen months.
    if not v_cron.either and v_cron.days[1] > 28 and not exists (
        select from unnest(v_cron.months) m
        where v_cron.days[1] <= case when m = 2 then 29 when m in (4, 6, 9, 11) then 30 else 31 end)
    then
        raise exception 'invalid cron expression "%": no chosen month has such a day', cron
            using errcode = 'invalid_parameter_value',
                  hint = 'February has at most 29 days; April, June, September and November 30.';
    end if;
    return v_cron;
end
$$;
comment on function pgq._cron_parse(text) is 'Parses a cron expression.';
