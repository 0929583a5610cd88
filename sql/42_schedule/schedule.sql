-- Makes or changes a schedule and returns its next run.
create or replace function pgq.schedule(
    name text,
    topic text,
    payload jsonb,
    cron text default null,
    every interval default null,
    time_zone text default 'UTC',
    missed text default 'one',
    headers jsonb default '{}',
    priority int default 0,
    expires_in interval default null,
    caller pgq.caller default current_user
) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := pgq.now();
    v_wanted pgq.schedule;
    v_present pgq.schedule;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_topic(caller, topic);
        v_wanted.role := (select r.oid::regrole from pg_roles r where r.rolname = schedule.caller);
    end if;
    v_wanted.name := schedule.name;
    v_wanted.topic := topic;
    v_wanted.payload := payload;
    v_wanted.headers := coalesce(headers, '{}');
    v_wanted.priority := priority;
    v_wanted.expires_in := expires_in;
    v_wanted.cron := cron;
    v_wanted.every := every;
    v_wanted.time_zone := time_zone;
    v_wanted.missed := missed;
    v_wanted.started_at := date_trunc('second', v_now);
    perform pgq._check_schedule(v_wanted);
    perform pgq._route_of(topic, v_wanted.role is null);  -- QU005 now, not at the first run
    v_wanted.next_at := pgq._next_run(v_wanted, v_now);

    insert into pgq.schedule select v_wanted.* on conflict on constraint schedule_pkey do nothing;
    if not found then
        v_present := pgq._schedule_for(caller, schedule.name);
        -- A program may call this at every start: with the same times it continues or stays paused.
        if v_present.cron is not distinct from cron and v_present.every is not distinct from every
           and v_present.time_zone = time_zone
        then
            v_wanted.started_at := v_present.started_at;
            v_wanted.next_at := v_present.next_at;
        end if;
        update pgq.schedule s
        set topic = v_wanted.topic, payload = v_wanted.payload, headers = v_wanted.headers,
            priority = v_wanted.priority, expires_in = v_wanted.expires_in, cron = v_wanted.cron,
            every = v_wanted.every, time_zone = v_wanted.time_zone, missed = v_wanted.missed,
            role = v_wanted.role, started_at = v_wanted.started_at, next_at = v_wanted.next_at
        where s.name = schedule.name;
    end if;
    perform pgq._wake_for(topic);
    return v_wanted.next_at;
end
$$;
comment on function pgq.schedule(
    text, text, jsonb, text, interval, text, text, jsonb, int, interval, pgq.caller) is
    'Publishes the message at regular times: either cron (minute hour day month weekday, or '
    '@daily and similar) in the time zone, or every interval from now on. Claims and maintain() '
    'publish each due run once. missed defines what happens to runs that were not published in '
    'time: skip them, publish one for all of them, or publish all. The headers schedule and '
    'scheduled_at name the run. A call with an existing name changes the schedule; with the same '
    'times it continues. Messages are published with the rights of the calling role. Returns the '
    'next run; null: the schedule is paused.';
