-- The first moment after the given one that a cron expression chooses, in a time zone.
--
-- When clocks go forward, a skipped local time runs as much later as the clocks were set forward:
-- 02:30 is 03:30 that day. When clocks go back, a local time occurs twice. An expression for every
-- hour then runs both times, any other only the first time.
create or replace function pgq._cron_after(cron pgq._cron, time_zone text, after timestamptz)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_local timestamp := after at time zone time_zone;
    v_base timestamptz;
    v_at timestamptz;
    v_first timestamptz;
begin
    -- Near a change of the clocks local times are not in the order of moments: begin before it.
    if pgq._clock_changes(after, time_zone) then
        v_local := v_local - interval '4 h';
    end if;
    loop
        v_local := pgq._cron_local(cron, v_local);
        v_base := v_local at time zone time_zone;
        exit when v_base is null or v_base - interval '4 h' > v_first;
        -- The moments at which clocks show the local time: one, two, or none.
        select case when cardinality(cron.hours) = 24
                    then min(c.at) filter (where c.at > after)
                    else min(c.at) end
        into v_at
        from (select v_base + s as at, s
              from unnest('{0,-30 min,-1 h,-2 h,30 min,1 h,2 h}'::interval[]) s) c
        where c.s = interval '0' or c.at at time zone time_zone = v_local;
        if v_at > after then
            v_first := least(v_first, v_at);
            exit when not pgq._clock_changes(v_at, time_zone);
        end if;
    end loop;
    return v_first;
end
$$;
comment on function pgq._cron_after(pgq._cron, text, timestamptz) is
    'The next time of a cron expression.';
