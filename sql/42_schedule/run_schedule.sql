-- Publishes the due runs of a schedule and stores its next run. The caller has locked its row.
--
-- Several runs are due if there was no claim and no maintain() for a while. "all" publishes each,
-- "one" publishes the last of them, and so does "skip", unless the last one is late itself.
create or replace function pgq._run_schedule(schedule pgq.schedule, now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_at timestamptz;
    v_id bigint;
    v_role name := case when schedule.role is null then current_user
        else (select r.rolname from pg_roles r where r.oid = schedule.role) end;
begin
    if v_role is null then
        raise exception 'the role of schedule "%" does not exist', schedule.name
            using errcode = 'undefined_object', hint = 'Let another role schedule it again.';
    end if;
    for i in 1 .. pgq._limit('schedule_runs') loop
        v_at := schedule.next_at;
        schedule.next_at := pgq._next_run(schedule, v_at);
        if schedule.missed <> 'all' and schedule.next_at <= now then
            v_at := pgq._last_run(schedule, now);
            schedule.next_at := pgq._next_run(schedule, now);
        end if;
        if schedule.missed <> 'skip'
           or v_at >= now - pgq._limit('schedule_late_seconds') * interval '1 s'
        then
            v_id := (pgq._publish(
                v_role, schedule.topic, array[schedule.payload],
                array[schedule.headers || jsonb_build_object(
                    'schedule', schedule.name, 'scheduled_at',
                    to_char(v_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))],
                schedule.priority, null, schedule.expires_in, null, null, null, null, null,
                null, null))[1];
        end if;
        exit when schedule.next_at > now;
    end loop;
    update pgq.schedule s
    set next_at = schedule.next_at, error = null, last_id = coalesce(v_id, s.last_id),
        last_at = case when v_id is null then s.last_at else _run_schedule.now end
    where s.name = schedule.name;
end
$$;
comment on function pgq._run_schedule(pgq.schedule, timestamptz) is
    'Publishes the runs of a schedule that are due.';
