-- Creates a queue that receives the topic of its name; false if it exists with this policy.
create or replace function pgq.create_queue(
    queue text,
    lane_keys text[] default null,
    lease interval default '30 s',
    max_attempts int default 3,
    backoff interval default '1 s',
    max_backoff interval default '5 min',
    retention interval default '1 day',
    mode text default 'queue',
    dedup_window interval default '5 min',
    on_expiry text default 'dead_letter',
    set_size int default 100,
    journal text default 'all',
    on_dead text default 'release',
    suggestions boolean default false,
    max_leased int default null,
    rate text default null,
    burst int default null,
    lane_max_leased int default null,
    lane_rate text default null,
    lane_burst int default null,
    fair boolean default false,
    max_lease interval default '3600 days',
    dedup text default 'keep'
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_wanted pgq.queue;
    v_present pgq.queue;
    v_limits pgq.queue_limit;
    v_present_limits pgq.queue_limit;
    v_change text;
begin
    perform pgq._check_topic(create_queue.queue);
    v_wanted.auto_lanes := coalesce(create_queue.lane_keys = '{auto}', false);
    v_wanted.lane_keys := pgq._lane_keys(create_queue.lane_keys, null);
    v_wanted.lease := create_queue.lease;
    v_wanted.max_attempts := create_queue.max_attempts;
    v_wanted.backoff := create_queue.backoff;
    v_wanted.max_backoff := create_queue.max_backoff;
    v_wanted.retention := create_queue.retention;
    v_wanted.mode := create_queue.mode;
    v_wanted.dedup_window := create_queue.dedup_window;
    v_wanted.on_expiry := create_queue.on_expiry;
    v_wanted.set_size := create_queue.set_size;
    v_wanted.journal := create_queue.journal;
    v_wanted.on_dead := create_queue.on_dead;
    v_wanted.suggestions := create_queue.suggestions;
    v_wanted.max_lease := create_queue.max_lease;
    v_wanted.dedup := create_queue.dedup;
    perform pgq._check_policy(v_wanted);
    v_wanted.queue_id := 0;  -- of no queue yet
    v_limits := pgq._limits(
        v_wanted, max_leased, rate, burst, lane_max_leased, lane_rate, lane_burst, fair);
    v_wanted.limited := v_limits.queue_id is not null;

    insert into pgq.queue (name, lane_keys, auto_lanes, lease, max_attempts, backoff, max_backoff,
                           retention, mode, dedup_window, on_expiry, set_size, journal, on_dead,
                           suggestions, limited, max_lease, dedup)
    values (create_queue.queue, v_wanted.lane_keys, v_wanted.auto_lanes, v_wanted.lease,
            v_wanted.max_attempts, v_wanted.backoff, v_wanted.max_backoff, v_wanted.retention,
            v_wanted.mode, v_wanted.dedup_window, v_wanted.on_expiry, v_wanted.set_size,
            v_wanted.journal, v_wanted.on_dead, v_wanted.suggestions, v_wanted.limited,
            v_wanted.max_lease, v_wanted.dedup)
    on conflict on constraint queue_name_unique do nothing
    returning * into v_present;

    if v_present.queue_id is null then
        select q.* into v_present from pgq.queue q where q.name = create_queue.queue;
        v_wanted.lane_keys := pgq._lane_keys(create_queue.lane_keys, v_present.lane_keys);
        select l.* into v_present_limits from pgq.queue_limit l
        where l.queue_id = v_present.queue_id;
        v_change := pgq._policy_change(v_present, v_wanted, v_present_limits, v_limits);
        if v_change is not null then
            raise exception 'queue "%" exists with another policy', create_queue.queue
                using errcode = 'QU002', detail = v_change,
                      hint = 'Change it with pgq.alter_queue, or create it as it is.';
        end if;
        -- A queue made by subscribe has only its subscriptions: now it gets its own topic too.
        insert into pgq.binding (queue_id, pattern, counted)
        values (v_present.queue_id, create_queue.queue, false)
        on conflict on constraint binding_queue_pattern_unique do nothing;
        if found then
            perform pgq._rerouted();
        end if;
        return false;
    end if;

    insert into pgq.binding (queue_id, pattern, counted)
    values (v_present.queue_id, create_queue.queue, false);
    if v_present.limited then
        perform pgq._set_limits(v_present.queue_id, v_limits);
    end if;
    perform pgq._rerouted();
    return true;
end
$$;
comment on function pgq.create_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean, int, text, int, int, text, int, boolean, interval, text) is
    'Creates a queue that receives the topic of its name. Returns false if the queue exists with '
    'the same options. QU002 if it exists with other options. Limits: max_leased is the largest '
    'number of messages leased at a time. rate, such as 100/min, limits claims; burst is the size '
    'of its token bucket (by default a tenth of the rate). lane_max_leased, lane_rate and '
    'lane_burst limit each lane. With fair, claims take turns over the lanes.';
