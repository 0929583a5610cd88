-- The part of upkeep that a queue's own consumers need; returns how many messages it moved.
create or replace function pgq._upkeep(queue pgq.queue, most int, now timestamptz) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_expired boolean;
    v_due boolean;
    v_stalled boolean;
    v_count int := 0;
begin
    select exists (select from pgq.lease l
                   where l.lease_id < pgq._lease_second(now + interval '1 s')
                     and l.queue_id = queue.queue_id and l.until <= now),
           exists (select from pgq.scheduled s
                   where s.queue_id = queue.queue_id and s.due_at <= now),
           exists (select from pgq.group_stall g where g.queue_id = queue.queue_id)
    into v_expired, v_due, v_stalled;
    if v_stalled then
        v_count := v_count + pgq._move_on(queue, now);
    end if;
    if v_expired then
        v_count := v_count + pgq._take_back(queue, most, now);
    end if;
    if v_due then
        v_count := v_count + pgq._promote(queue, most, now);
    end if;
    return v_count;
end
$$;
comment on function pgq._upkeep(pgq.queue, int, timestamptz) is
    'Takes back expired leases and makes due messages ready, a bounded amount.';
revoke all on function pgq._upkeep(pgq.queue, int, timestamptz) from public;
