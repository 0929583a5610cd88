-- Takes up to n messages that a queue got before it had lanes, until maintain() has sorted them.
-- Limits count them as one lane. With a filter, only messages that match.
create or replace function pgq._take_unlaned(
    claim pgq._claim, limits pgq.queue_limit, low pgq._low, filter pgq.filter
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lane constant bigint := pgq._lane_flow(null);
    v_found pgq._found;
    v_rows record;
    v_taken pgq._taken := row(null, 0, null)::pgq._taken;
begin
    if limits.lane_max_leased is not null then
        perform from pgq.flow f
        where f.queue_id = claim.queue_id and f.lane = v_lane and f.full_at = 'epoch'
        for update skip locked;
        if not found and not pgq._new_lane(claim.queue_id, v_lane) then
            return v_taken;
        end if;
        claim.n := least(claim.n, limits.lane_max_leased
                         - pgq._in_flight(claim.queue_id, v_lane, low.lease));
    end if;
    if claim.n < 1 then
        return v_taken;
    end if;
    claim.permits := pgq._first_ids(claim.permits, claim.n);
    if filter.path is null then
        v_found.places := array(
            select r.ctid from pgq.ready r
            where r.queue_id = claim.queue_id and r.lane_id is null
              and (r.expires_at is null or r.expires_at > claim.claimed_at)
            order by r.rank limit claim.n for update skip locked);
    else
        claim.low := pgq._rank_first();
        v_found := pgq._find_matches(
            claim, filter, row('{}', '{}', '{}', null, false)::pgq._lanes, null);
    end if;
    if v_found.places <> '{}' then
        claim.lease_id := pgq._lease_token(claim.until);
        v_rows := pgq._take_rows(claim, v_found.places, v_found.sets);
        v_taken.lease_id := claim.lease_id;
        v_taken.size := v_rows.size;
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_unlaned(pgq._claim, pgq.queue_limit, pgq._low, pgq.filter) is
    'Takes messages that a queue got before it had lanes.';
