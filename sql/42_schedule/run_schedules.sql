-- Runs the schedules that are due, a bounded number; returns how many. Called by every claim that
-- does upkeep, and by maintain().
--
-- Each run is published once: a session that runs a schedule locks its row until the messages and
-- the time of the next run are committed; others skip the row. Not under an old snapshot: that
-- would fail with 40001 when another session has run the schedule.
create or replace function pgq._run_schedules(now timestamptz) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule pgq.schedule;
    v_count int := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return 0;
    end if;
    for v_schedule in
        select s.* from pgq.schedule s
        where s.next_at <= _run_schedules.now
        order by s.next_at limit pgq._limit('schedules') for update skip locked
    loop
        -- A schedule that fails must not stop a claim.
        begin
            perform pgq._run_schedule(v_schedule, _run_schedules.now);
        exception
            when query_canceled or admin_shutdown or crash_shutdown then
                raise;
            when others then
                raise warning 'schedule "%" failed: %', v_schedule.name, sqlerrm
                    using errcode = sqlstate,
                          hint = 'Its next run is tried as usual; see pgq.schedules.';
                perform pgq._skip_run(v_schedule, sqlerrm, _run_schedules.now);
        end;
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;
comment on function pgq._run_schedules(timestamptz) is 'Runs the schedules that are due.';
