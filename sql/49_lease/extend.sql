-- Extends a lease: it lasts from now for the given time, or for the lease duration of the queue.
create or replace function pgq.extend(
    lease_id bigint, lease interval default null, caller pgq.caller default current_user
) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_held record;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, extend.lease_id);
    end if;
    if extend.lease <= interval '0' then
        raise exception 'lease must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'To give messages back use pgq.nack.';
    end if;
    -- However often it is extended, a lease ends at most max_lease of the queue after its claim.
    select q.name, q.max_lease, min(l.until) as until,
           min(l.claimed_at) + pgq._lease_span(q.max_lease, '10 years') as "limit"
    into v_held
    from pgq.lease l join pgq.queue q on q.queue_id = l.queue_id
    where l.lease_id = extend.lease_id group by q.queue_id;
    if v_held.until < 'infinity' and v_held.until >= v_held.limit then
        raise exception 'lease % cannot last longer: queue "%" allows %', extend.lease_id,
            v_held.name, v_held.max_lease
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'End it with pgq.ack or pgq.nack, or raise max_lease with '
                      'pgq.alter_queue.';
    end if;
    update pgq.lease l
    -- Never shorten a lease: its id encodes the original end, and expired leases are found by id.
    set until = greatest(
        l.until, least(v_now + pgq._lease_span(coalesce(extend.lease, q.lease)), v_held.limit))
    from pgq.queue q
    where l.lease_id = extend.lease_id and q.queue_id = l.queue_id;
    if not found then
        perform pgq._lose_lease(extend.lease_id);
    end if;
    return (
        select nullif(min(l.until), 'infinity') from pgq.lease l
        where l.lease_id = extend.lease_id);
end
$$;
comment on function pgq.extend(bigint, interval, pgq.caller) is
    'Extends a lease: it then lasts for the given time from now (null: the lease duration of the '
    'queue), but no longer than max_lease of the queue after the claim. 55000 if it has that '
    'limit already. Returns the new expiry, or null if the lease never expires. QU003 if the '
    'lease is stale.';
