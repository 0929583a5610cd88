-- Stores that a run has failed, and when the next one is due: null (paused) if that is unknown.
create or replace function pgq._skip_run(schedule pgq.schedule, error text, now timestamptz)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_next timestamptz;
begin
    begin
        v_next := pgq._next_run(schedule, now);
    exception
        when others then
            null;  -- such as a time zone that the server does not know any more
    end;
    update pgq.schedule s set next_at = v_next, error = _skip_run.error
    where s.name = schedule.name;
end
$$;
comment on function pgq._skip_run(pgq.schedule, text, timestamptz) is
    'Stores that a run has failed.';
