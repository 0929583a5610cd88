-- The schedule of that name, locked, for the role that made it, its members and the owner; null if
-- there is none, 42501 for others.
create or replace function pgq._schedule_for(caller name, name text) returns pgq.schedule
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule pgq.schedule;
begin
    select s.* into v_schedule from pgq.schedule s where s.name = _schedule_for.name for update;
    if found and not pgq._is_owner(caller)
       and not coalesce(pg_has_role(caller, v_schedule.role, 'usage'), false)
    then
        raise exception 'permission denied for schedule "%"', _schedule_for.name
            using errcode = 'insufficient_privilege',
                  hint = 'Another role has made a schedule of this name: choose a new one.';
    end if;
    return v_schedule;
end
$$;
comment on function pgq._schedule_for(name, text) is
    'The schedule of that name, for a caller who may change it.';
