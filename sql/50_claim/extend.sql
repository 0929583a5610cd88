-- The lease lasts from now for the given time, or for the queue's.
create or replace function pgq.extend(
    lease_id bigint, lease interval default null, caller pgq.caller default current_user
) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_now timestamptz := pgq.now();
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, extend.lease_id);
    end if;
    if extend.lease <= interval '0' then
        raise exception 'lease must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'To give messages back use pgq.nack.';
    end if;
    update pgq.lease l
    -- Never shorter: the token stands where the lease was to end, and is not looked for before.
    set until = greatest(l.until, v_now + coalesce(extend.lease, q.lease))
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
    'Holds the messages of a lease for longer: the given time (null: the queue''s lease) from now. '
    'Returns until when; null: a lease that is held without an end keeps none. QU003 if the lease '
    'is lost.';
revoke all on function pgq.extend(bigint, interval, pgq.caller) from public;
