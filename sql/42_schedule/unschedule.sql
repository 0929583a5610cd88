-- Ends a schedule; false if there is none.
create or replace function pgq.unschedule(name text, caller pgq.caller default current_user)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule pgq.schedule := pgq._schedule_for(caller, unschedule.name);
begin
    delete from pgq.schedule s where s.name = v_schedule.name;
    return found;
end
$$;
comment on function pgq.unschedule(text, pgq.caller) is
    'Ends a schedule. Messages that it has published stay. Returns false if there is no schedule '
    'of that name.';
