-- Takes up to n messages of a queue from its head: mostly a part of the row there.
create or replace function pgq._take_first(queue pgq.queue, claim pgq._claim, low pgq._low)
returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_head pgq._queue_head;
    v_part pgq._fast_lease;
begin
    if low.tick is distinct from pgq._low_tick(claim.claimed_at) then
        v_head := pgq._find_head(queue, low, claim.claimed_at, claim.n);
        low := v_head.low;
    end if;
    if low.size > claim.n and claim.key is null then
        v_part := pgq._take_part(
            queue.queue_id, low.rank, low.high, low.seen, claim.n, claim.journal,
            claim.claimed_at, claim.until, claim.flow, claim.permits);
        if v_part.size > 0 then
            return row(v_part.lease_id, v_part.size, null)::pgq._taken;
        end if;
        v_head := null;
    end if;
    if v_head is null then
        v_head := pgq._find_head(queue, low, claim.claimed_at, claim.n);
    end if;
    return pgq._take_head(claim, v_head);
end
$$;
comment on function pgq._take_first(pgq.queue, pgq._claim, pgq._low) is
    'Takes messages from the head of a queue.';
