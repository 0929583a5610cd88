-- The seconds per message of a rate such as 100/min or 5/10 s; 22023 if it makes no sense.
create or replace function pgq._rate_step(rate text) returns float8
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_part text[] := regexp_match(rate, '^ *([0-9]{1,9}) */ *([0-9.]*) *([a-z]+) *$');
    v_seconds float8;
begin
    if rate is null then
        return null;
    end if;
    begin
        v_seconds := extract(epoch from (coalesce(nullif(v_part[2], ''), '1')
                                         || ' ' || v_part[3])::interval)::float8;
    exception
        when invalid_datetime_format or datetime_field_overflow then
            null;
    end;
    if v_seconds > 0 and v_part[1]::int > 0 then
        return v_seconds / v_part[1]::int;
    end if;
    raise exception 'invalid rate "%"', rate
        using errcode = 'invalid_parameter_value',
              hint = 'Use messages per time, such as 10/s, 100/min or 500/15 min.';
end
$$;
comment on function pgq._rate_step(text) is 'The seconds per message of a rate.';
