-- The values of one field of a cron expression, in order; 22023 if it makes no sense. Names stand
-- for the numbers from low on.
create or replace function pgq._cron_field(
    cron text, field text, name text, low int, high int, names text[] default '{}'
) returns int[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_item text;
    v_part text[];
    v_ends int[];
    v_step int;
    v_values int[] := '{}';
    v_problem text;
begin
    foreach v_item in array string_to_array(lower(field), ',') loop
        v_part := regexp_match(v_item, '^(?:([*])|([a-z]+|[0-9]{1,4})(?:-([a-z]+|[0-9]{1,4}))?)'
            '(?:/([0-9]{1,4}))?$');
        v_ends := array(
            select case when e ~ '^[0-9]' then e::int else array_position(names, e) + low - 1 end
            from unnest(v_part[2:3]) with ordinality u (e, i) where e is not null order by i);
        v_step := coalesce(v_part[4]::int, 1);
        case
            when v_part is null or array_position(v_ends, null) is not null then
                v_problem := format('"%s" is no %s', v_item, name);
            when v_step not between 1 and high then
                v_problem := format('the step of "%s" is not between 1 and %s', v_item, high);
            when v_part[1] is not null then
                v_ends := array[low, high];
            when v_part[3] is null then
                v_ends[2] := case when v_part[4] is null then v_ends[1] else high end;
            -- A week may end on its first day: fri-sun.
            when name = 'weekday' and v_ends[2] = 0 and v_ends[1] > 0 then
                v_ends[2] := 7;
            else
                null;
        end case;
        case
            when v_problem is not null then
                null;
            when v_ends[1] not between low and high or v_ends[2] not between low and high then
                v_problem := format('%s "%s" is not between %s and %s', name, v_item, low, high);
            when v_ends[1] > v_ends[2] then
                v_problem := format('"%s" begins after its end', v_item);
            else
                v_values := v_values || array(
                    select * from generate_series(v_ends[1], v_ends[2], v_step));
        end case;
        exit when v_problem is not null;
    end loop;
    if v_problem is null and v_values = '{}' then
        v_problem := format('the %s is missing', name);
    end if;
    if v_problem is not null then
        raise exception 'invalid cron expression "%": %', cron, v_problem
            using errcode = 'invalid_parameter_value',
                  hint = 'Use five fields (minute hour day month weekday), such as '
                      '''30 2 * * mon-fri'' or ''*/5 * * * *''.';
    end if;
    if name = 'weekday' then
        v_values := array(select v % 7 from unnest(v_values) v);
    end if;
    return array(select distinct v from unnest(v_values) v order by v);
end
$$;
comment on function pgq._cron_field(text, text, text, int, int, text[]) is
    'The values of one field of a cron expression.';
