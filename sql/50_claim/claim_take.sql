-- Takes up to n messages and writes the lease. Used by claim, and by hold for named claims that
-- are read later. A lease begins when the messages are taken, not when the call began. tended: the
-- caller has done upkeep, which is not repeated even if the next tick has begun.
create or replace function pgq._claim(
    queue pgq.queue, filter jsonb, n int, lease interval, key text, low pgq._low,
    endless boolean default false, tended boolean default false, runs boolean default false
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_upkeep bigint;
    v_claim pgq._claim;
    v_head pgq._queue_head;
    v_taken pgq._taken;
begin
    if key is not null then
        v_taken := pgq._named_claim(queue, key, lease, endless);
        if v_taken.size > 0 then
            return v_taken;
        end if;
        queue := pgq._queue(queue.name);  -- it may have changed while this claim waited
    end if;
    if queue.paused then
        return row(null, 0, null)::pgq._taken;
    end if;
    if not tended then
        v_upkeep := low.upkeep;
        low := pgq._upkeep_tick(queue, low, pgq.now());
        -- Claims that do not call _find_head store here that this tick has had its upkeep, and the
        -- era.
        if (queue.limited or filter is not null) and low.upkeep is distinct from v_upkeep then
            select e.number, e.first_id into low.era, low.first_id
            from pgq.era e where e.number = pg_sequence_last_value('pgq.era_number');
            perform pgq._low_set(queue.queue_id, queue.secret, low::text);
        end if;
    end if;
    v_claim := row(queue.queue_id, null, 0, n, null, null, queue.journal = 'all', key, null,
                   null, null)::pgq._claim;
    for i in 1 .. 5 loop
        v_claim.claimed_at := pgq.now();
        v_claim.until := case when endless then 'infinity'
                         else v_claim.claimed_at
                             + pgq._lease_span(coalesce(lease, queue.lease)) end;
        if queue.limited then
            v_taken := pgq._take_limited(queue, v_claim, filter, low);
        elsif filter is null then
            v_head := pgq._find_head(queue, low, v_claim.claimed_at, n);
            low := v_head.low;
            v_taken := pgq._take_head(v_claim, v_head);
        else
            v_taken := pgq._take_matching(queue, v_claim, filter);
        end if;
        exit when v_taken.size > 0;
        -- Nothing found: do upkeep; repeatedly for ordering groups, where the end of an expired
        -- message makes the next one ready. Or wait a moment for claims that are taking a part of a
        -- row, because they put the rest back.
        continue when (i = 1 or exists (select from pgq.group_head h
                                        where h.queue_id = queue.queue_id))
            and pgq._upkeep(queue, low.lease, low.due, v_claim.claimed_at) > 0;
        exit when v_taken.missed is null or not pgq._await_rows(v_taken.missed);
    end loop;
    if runs and v_taken.size between 1 and n - 1 and not queue.limited then
        v_taken.size := v_taken.size + pgq._take_runs(
            queue, v_taken.lease_id, filter, n - v_taken.size, v_claim.claimed_at);
    end if;
    return v_taken;
end
$$;
comment on function pgq._claim(
    pgq.queue, jsonb, int, interval, text, pgq._low, boolean, boolean, boolean) is
    'Takes messages and writes their lease.';
