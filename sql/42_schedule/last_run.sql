-- The last run of a schedule that is not after now, if its next run is due.
create or replace function pgq._last_run(schedule pgq.schedule, now timestamptz)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_back interval := '1 min';
    v_at timestamptz;
    v_next timestamptz;
begin
    -- Twice as far back each time: few runs are between the first one found and now.
    loop
        v_at := greatest(schedule.next_at, pgq._next_run(schedule, now - v_back));
        exit when v_at <= now;
        if now - v_back < schedule.next_at then
            return schedule.next_at;
        end if;
        v_back := v_back * 2;
    end loop;
    loop
        v_next := pgq._next_run(schedule, v_at);
        exit when v_next > now;
        v_at := v_next;
    end loop;
    return v_at;
end
$$;
comment on function pgq._last_run(pgq.schedule, timestamptz) is
    'The last run of a schedule that is not after now.';
