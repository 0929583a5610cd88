-- Creates a queue that receives the topic of its name; false if it is there with this policy.
create or replace function pgq.create_queue(
    name text,
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
    suggestions boolean default false
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_wanted pgq.queue;
    v_present pgq.queue;
begin
    perform pgq._check_topic(create_queue.name);
    v_wanted.lane_keys := nullif(create_queue.lane_keys, '{}');
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
    perform pgq._check_policy(v_wanted);

    insert into pgq.queue (name, lane_keys, lease, max_attempts, backoff, max_backoff, retention,
                           mode, dedup_window, on_expiry, set_size, journal, on_dead, suggestions)
    values (create_queue.name, v_wanted.lane_keys, v_wanted.lease, v_wanted.max_attempts,
            v_wanted.backoff, v_wanted.max_backoff, v_wanted.retention, v_wanted.mode,
            v_wanted.dedup_window, v_wanted.on_expiry, v_wanted.set_size,
            v_wanted.journal, v_wanted.on_dead, v_wanted.suggestions)
    on conflict on constraint queue_name_unique do nothing
    returning * into v_present;

    if v_present.queue_id is null then
        select q.* into v_present from pgq.queue q where q.name = create_queue.name;
        v_wanted.queue_id := v_present.queue_id;
        v_wanted.name := v_present.name;
        v_wanted.lanes_full := v_present.lanes_full;
        v_wanted.unlaned_rows := v_present.unlaned_rows;
        v_wanted.unlaned_xid := v_present.unlaned_xid;
        v_wanted.paused := v_present.paused;
        v_wanted.signal := v_present.signal;
        v_wanted.created_at := v_present.created_at;
        if v_present is distinct from v_wanted then
            raise exception 'queue "%" exists with another policy', create_queue.name
                using errcode = 'QU002',
                      hint = 'Change it with pgq.alter_queue, or create it as it is.';
        end if;
        -- A queue made by subscribe has only its subscriptions: now it gets its own topic too.
        insert into pgq.binding (queue_id, pattern, counted)
        values (v_present.queue_id, create_queue.name, false)
        on conflict on constraint binding_queue_pattern_unique do nothing;
        if found then
            perform pgq._rerouted();
        end if;
        return false;
    end if;

    insert into pgq.binding (queue_id, pattern, counted)
    values (v_present.queue_id, create_queue.name, false);
    perform pgq._rerouted();
    return true;
end
$$;
comment on function pgq.create_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean) is
    'Creates a queue that receives the topic of its name. Returns false if it exists with the same '
    'policy; raises QU002 if it exists with another.';
revoke all on function pgq.create_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean)
    from public;
