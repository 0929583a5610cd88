-- Changes what is given, keeps what is null.
create or replace function pgq.alter_queue(
    name text,
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
    caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', alter_queue.name);
    v_before text[];
begin
    -- Lock first: two changes of one queue must not overwrite each other.
    select q.* into strict v_queue from pgq.queue q
    where q.queue_id = v_queue.queue_id for update;
    v_before := v_queue.lane_keys;
    v_queue.lane_keys := nullif(coalesce(alter_queue.lane_keys, v_queue.lane_keys), '{}');
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
    perform pgq._check_policy(v_queue);

    -- Ready rows keep the lanes they have. A lane of other keys counts as mixed from now on, and
    -- rows without a lane are looked for until none is left: no message is touched here, however
    -- many there are, and a publisher that still uses the old keys does no harm.
    if v_before is distinct from v_queue.lane_keys then
        v_queue.lanes_full := false;
        v_queue.unlaned_rows := v_queue.unlaned_rows or v_before is null;
        v_queue.unlaned_xid := null;
    end if;
    update pgq.queue q
    set lane_keys = v_queue.lane_keys, lanes_full = v_queue.lanes_full,
        unlaned_rows = v_queue.unlaned_rows, unlaned_xid = v_queue.unlaned_xid,
        lease = v_queue.lease,
        max_attempts = v_queue.max_attempts, backoff = v_queue.backoff,
        max_backoff = v_queue.max_backoff, retention = v_queue.retention, mode = v_queue.mode,
        dedup_window = v_queue.dedup_window, on_expiry = v_queue.on_expiry,
        set_size = v_queue.set_size, journal = v_queue.journal,
        on_dead = v_queue.on_dead, suggestions = v_queue.suggestions
    where q.queue_id = v_queue.queue_id;
    perform pgq._rerouted();
end
$$;
comment on function pgq.alter_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean, pgq.caller) is
    'Changes the given parts of a queue''s policy; null keeps a part, lane_keys => ''{}'' removes '
    'the lanes. Works on a queue with messages.';
revoke all on function pgq.alter_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean, pgq.caller)
    from public;
