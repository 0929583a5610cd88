-- A named claim that does not read its messages: it returns the lease, which has no end unless one
-- is given. For consumers that read it in parts.
create or replace function pgq.hold(
    queue text,
    key text,
    filter jsonb default null,
    n int default 1,
    lease interval default null,
    runs boolean default false,
    caller pgq.caller default current_user
) returns table (lease_id bigint, size bigint, lease_until timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @worker
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', hold.queue);
    v_taken pgq._taken;
begin
    if hold.key is null or hold.key = '' then
        raise exception 'a claim to be held needs a name'
            using errcode = 'invalid_parameter_value',
                  hint = 'Use a key that says whose it is, such as ''nightly-job 42''.';
    end if;
    perform pgq._check_claim(caller, hold.queue, hold.n, hold.lease, null);
    if v_queue.mode <> 'queue' then
        perform pgq._refuse_claim(hold.queue, pgq._is_owner(caller));
    end if;
    v_taken := pgq._claim(
        v_queue, nullif(hold.filter, '{}'), hold.n, hold.lease, hold.key,
        pgq._low_get(current_setting('pgq.low_' || v_queue.queue_id, true), v_queue.secret),
        endless => hold.lease is null, runs => hold.runs);
    return query
        select l.lease_id, sum(l.size), nullif(min(l.until), 'infinity') from pgq.lease l
        where l.lease_id = v_taken.lease_id and v_taken.size > 0 group by l.lease_id;
end
$$;
comment on function pgq.hold(text, text, jsonb, int, interval, boolean, pgq.caller) is
    'Makes a named claim without reading the messages, for consumers that read them in parts with '
    'pgq.lease_parts. Returns the lease and its number of messages, or no row if there are none '
    'to claim. The same key returns the same lease until it is acknowledged. Without a lease '
    'duration the lease never expires: pgq.leases lists it, and pgq.release ends it. With runs it '
    'claims the head of an ordering group and messages after it: see pgq.stream_claim.';
