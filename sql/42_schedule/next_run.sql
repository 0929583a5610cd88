-- The first run of a schedule after a moment.
create or replace function pgq._next_run(schedule pgq.schedule, after timestamptz)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if schedule.cron is not null then
        return pgq._cron_after(pgq._cron_parse(schedule.cron), schedule.time_zone, after);
    end if;
    return pgq._every_after(schedule.every, schedule.time_zone, schedule.started_at, after);
end
$$;
comment on function pgq._next_run(pgq.schedule, timestamptz) is
    'The first run of a schedule after a moment.';
