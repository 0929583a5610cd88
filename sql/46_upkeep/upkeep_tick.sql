-- Upkeep by a claim: at most once in a tick, and recorded in the low watermark, which is returned
-- and has to be stored. Leases that begin from now on have tokens from now on, and rows scheduled
-- from now on are due later: the next upkeep need not read anything before that.
create or replace function pgq._upkeep_tick(
    queue pgq.queue, low pgq._low, now timestamptz
) returns pgq._low
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick bigint := pgq._low_tick(now);
    v_first boolean := low.swept is null;
    v_next record;
    v_moved int;
begin
    if abs(low.upkeep) = v_tick then
        return low;
    end if;
    if (v_tick - low.swept between 0 and pgq._limit('full_seconds') * pgq._limit('ticks'))
        is not true
    then
        low.lease := null;
        low.due := null;
        low.swept := v_tick;
    end if;
    low.upkeep := v_tick;
    select (select l.lease_id from pgq.lease l
            where l.lease_id >= coalesce(low.lease, 0) and l.queue_id = queue.queue_id
              and l.lease_id < pgq._lease_second_end(now)
            order by l.lease_id limit 1) as lease,
           (select s.due_at from pgq.scheduled s
            where s.queue_id = queue.queue_id and s.due_at >= coalesce(low.due, '-infinity')
              and s.due_at <= now
            order by s.due_at limit 1) as due,
           exists (select from pgq.ready r
                   where r.queue_id = queue.queue_id and r.expires_at <= now) as expired,
           exists (select from pgq.group_stall g where g.queue_id = queue.queue_id) as stalled,
           exists (select from pgq.schedule s where s.next_at <= now) as scheduled
    into v_next;
    low.lease := least(pgq._lease_second(now), v_next.lease);
    low.due := least(now, v_next.due);
    if v_next.scheduled then
        perform pgq._run_schedules(now);
    end if;
    if v_next.lease is not null or v_next.due is not null or v_next.stalled then
        v_moved := pgq._upkeep(queue, low.lease, low.due, now);
    elsif v_next.expired then
        v_moved := pgq._expire_some(queue, v_first, now);
    end if;
    if v_moved > 0 then
        low.upkeep := -v_tick;
    end if;
    low.expired := v_next.expired and exists (
        select from pgq.ready r where r.queue_id = queue.queue_id and r.expires_at <= now);
    return low;
end
$$;
comment on function pgq._upkeep_tick(pgq.queue, pgq._low, timestamptz) is
    'Runs upkeep in a claim, at most once per tick.';
