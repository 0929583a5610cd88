-- Changes the given parts of a policy and keeps those that are null.
create or replace function pgq.alter_queue(
    queue text,
    lane_keys text[] default null,
    lease interval default null,
    max_attempts int default null,
    backoff interval default null,
    max_backoff interval default null,
    retention interval default null,
    mode text default null,
    dedup_window interval default null,
    on_expiry text default null,
    set_size int default null,
    journal text default null,
    on_dead text default null,
    suggestions boolean default null,
    max_leased int default null,
    rate text default null,
    burst int default null,
    lane_max_leased int default null,
    lane_rate text default null,
    lane_burst int default null,
    fair boolean default null,
    max_lease interval default null,
    dedup text default null,
    caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', alter_queue.queue);
    v_before pgq.queue;
    v_limits pgq.queue_limit;
begin
    -- Lock first: two changes of one queue must not overwrite each other.
    select q.* into strict v_queue from pgq.queue q
    where q.queue_id = v_queue.queue_id for update;
    v_before := v_queue;
    if alter_queue.lane_keys is not null then
        v_queue.auto_lanes := alter_queue.lane_keys = '{auto}';
        v_queue.lane_keys := pgq._lane_keys(alter_queue.lane_keys, v_before.lane_keys);
    end if;
    v_queue.lease := coalesce(alter_queue.lease, v_queue.lease);
    v_queue.max_attempts := coalesce(alter_queue.max_attempts, v_queue.max_attempts);
    v_queue.backoff := coalesce(alter_queue.backoff, v_queue.backoff);
    v_queue.max_backoff := coalesce(alter_queue.max_backoff, v_queue.max_backoff);
    v_queue.retention := coalesce(alter_queue.retention, v_queue.retention);
    v_queue.mode := coalesce(alter_queue.mode, v_queue.mode);
    v_queue.dedup_window := coalesce(alter_queue.dedup_window, v_queue.dedup_window);
    v_queue.on_expiry := coalesce(alter_queue.on_expiry, v_queue.on_expiry);
    v_queue.set_size := coalesce(alter_queue.set_size, v_queue.set_size);
    v_queue.journal := coalesce(alter_queue.journal, v_queue.journal);
    v_queue.on_dead := coalesce(alter_queue.on_dead, v_queue.on_dead);
    v_queue.suggestions := coalesce(alter_queue.suggestions, v_queue.suggestions);
    v_queue.max_lease := coalesce(alter_queue.max_lease, v_queue.max_lease);
    v_queue.dedup := coalesce(alter_queue.dedup, v_queue.dedup);
    perform pgq._check_policy(v_queue);
    v_limits := pgq._limits(
        v_queue, max_leased, rate, burst, lane_max_leased, lane_rate, lane_burst, fair);
    if v_queue.limited or v_limits.queue_id is not null then
        perform pgq._set_limits(v_queue.queue_id, v_limits);
    end if;
    v_queue.limited := v_limits.queue_id is not null;

    -- Ready rows keep their lanes. From now on a lane of other keys can contain any message, and
    -- claims scan rows without a lane until none is left. So this call changes no message, however
    -- many there are, and a publisher that still uses the old keys does no harm.
    if v_before.lane_keys is distinct from v_queue.lane_keys then
        v_queue.lanes_full := false;
        v_queue.unlaned_rows := v_queue.unlaned_rows or v_before.lane_keys is null;
        v_queue.unlaned_xid := null;
        v_queue.unlaned_rank := null;
    end if;
    update pgq.queue q
    set lane_keys = v_queue.lane_keys, lanes_full = v_queue.lanes_full,
        unlaned_rows = v_queue.unlaned_rows, unlaned_xid = v_queue.unlaned_xid,
        unlaned_rank = v_queue.unlaned_rank, auto_lanes = v_queue.auto_lanes,
        lease = v_queue.lease,
        max_attempts = v_queue.max_attempts, backoff = v_queue.backoff,
        max_backoff = v_queue.max_backoff, retention = v_queue.retention, mode = v_queue.mode,
        dedup_window = v_queue.dedup_window, on_expiry = v_queue.on_expiry,
        set_size = v_queue.set_size, journal = v_queue.journal,
        on_dead = v_queue.on_dead, suggestions = v_queue.suggestions, limited = v_queue.limited,
        max_lease = v_queue.max_lease, dedup = v_queue.dedup
    where q.queue_id = v_queue.queue_id;
    -- The settings that publishers and pgq.check() depend on.
    if (v_before.lane_keys, v_before.mode, v_before.dedup_window, v_before.dedup,
        v_before.journal)
       is distinct from (v_queue.lane_keys, v_queue.mode, v_queue.dedup_window, v_queue.dedup,
                         v_queue.journal)
    then
        perform pgq._rerouted(caller);
    end if;
end
$$;
comment on function pgq.alter_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean, int, text, int, int, text, int, boolean, interval, text, pgq.caller) is
    'Changes the given options of a queue. Null keeps an option. lane_keys => ''{}'' removes the '
    'lanes, and ''{auto}'' lets maintain() choose them. 0 or an empty rate removes a limit. Works '
    'on a queue with messages and consumers, and changes no message: maintain() sorts messages '
    'into new lanes. A new limit counts messages that are claimed from now on.';
