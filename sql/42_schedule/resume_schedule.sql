-- Resumes a schedule; false if it was not paused. Runs during the pause do not count as missed.
create or replace function pgq.resume_schedule(name text, caller pgq.caller default current_user)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule pgq.schedule := pgq._schedule_for(caller, resume_schedule.name);
begin
    if v_schedule.name is null then
        perform pgq._refuse_schedule(name);
    elsif v_schedule.next_at is not null then
        return false;
    end if;
    update pgq.schedule s set next_at = pgq._next_run(v_schedule, pgq.now()), error = null
    where s.name = v_schedule.name;
    perform pgq._wake_for(v_schedule.topic);
    return true;
end
$$;
comment on function pgq.resume_schedule(text, pgq.caller) is
    'Resumes a paused schedule with its next run. Returns false if it was not paused.';
