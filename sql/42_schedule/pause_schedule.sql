-- Stops a schedule until resume_schedule; false if it was paused already.
create or replace function pgq.pause_schedule(name text, caller pgq.caller default current_user)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule pgq.schedule := pgq._schedule_for(caller, pause_schedule.name);
begin
    if v_schedule.name is null then
        perform pgq._refuse_schedule(name);
    end if;
    update pgq.schedule s set next_at = null
    where s.name = v_schedule.name and s.next_at is not null;
    return found;
end
$$;
comment on function pgq.pause_schedule(text, pgq.caller) is
    'Stops a schedule until resume_schedule. Returns false if it was paused already.';
