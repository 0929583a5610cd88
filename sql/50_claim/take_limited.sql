-- Takes up to n messages of a queue that has limits, or whose lanes take turns.
--
-- The budget of the claim is what the limits of the whole queue allow (_budget). No more than that
-- is taken, so nothing is put back. _take_turns handles limits of lanes, and turns.
create or replace function pgq._take_limited(
    queue pgq.queue, claim pgq._claim, filter jsonb, low pgq._low
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limit pgq.queue_limit;
    v_wanted int := claim.n;
    v_now timestamptz;
    v_budget pgq._budget;
    v_left int;
    v_spent int;
    v_lanes boolean;  -- lanes have limits
    v_turns boolean;
    v_taken pgq._taken := row(null, 0, null)::pgq._taken;
begin
    select l.* into v_limit from pgq.queue_limit l where l.queue_id = queue.queue_id;
    v_lanes := num_nonnulls(v_limit.lane_max_leased, v_limit.lane_step) > 0;
    v_turns := v_lanes or coalesce(v_limit.fair, false);
    claim.flow := case when v_limit.lane_max_leased is not null then 1
                       when v_limit.max_leased is not null then 0 end;
    if current_setting('transaction_isolation') <> 'read committed'
       and (v_lanes or num_nonnulls(v_limit.max_leased, v_limit.step) > 0)
    then
        raise exception 'queue "%" has limits: claim it under READ COMMITTED', queue.name
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'An old snapshot does not show what others have claimed.';
    end if;
    if num_nonnulls(v_limit.max_leased, v_limit.step) > 0 then
        v_budget := pgq._budget(queue.queue_id, v_limit, claim.n, low.lease, claim.claimed_at);
        if v_budget.n < 1 or v_limit is distinct from (
            select l from pgq.queue_limit l where l.queue_id = queue.queue_id)
        then
            return v_taken;  -- if the limits have changed, alter_queue wakes sleeping consumers
        end if;
        -- The lease begins now, after the end of all leases that were counted as ended.
        v_now := pgq.now();
        claim.until := claim.until + (v_now - claim.claimed_at);
        claim.claimed_at := v_now;
        claim.n := v_budget.n;
        if v_budget.permits is not null then
            claim.permits := pgq._first_ids(v_budget.permits, v_budget.n);
        end if;
    end if;
    if v_turns then
        v_taken := pgq._take_turns(queue, claim, filter, v_limit, low);
    elsif filter is null then
        v_taken := pgq._take_first(queue, claim, low);
    else
        v_taken := pgq._take_matching(queue, claim, filter);
    end if;
    if v_lanes or v_budget.n > 0 then
        v_taken.missed := null;  -- a claim that has locked a shard or a lane must not wait
    end if;
    if v_taken.size > 0 then
        v_left := v_taken.size;
        for i in 1 .. coalesce(cardinality(v_budget.tokens), 0) loop
            v_spent := least(v_left, v_budget.tokens[i]);
            continue when v_spent < 1;
            v_left := v_left - v_spent;
            perform pgq._spend(
                queue.queue_id, pgq._shard_lane(v_budget.shards[i]), v_budget.full_at[i],
                v_limit.step * pgq._shards(v_limit), v_spent, claim.claimed_at);
        end loop;
        -- Wake other consumers, which may have found everything locked meanwhile and gone to sleep;
        -- not if the limits of the queue leave them nothing.
        if (v_turns or v_taken.size = v_wanted) and (claim.n = v_wanted or v_taken.size < claim.n)
           and exists (select from pgq.waiter)
        then
            perform pgq._wake(queue.queue_id);
        end if;
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_limited(pgq.queue, pgq._claim, jsonb, pgq._low) is
    'Takes messages of a queue that has limits.';
