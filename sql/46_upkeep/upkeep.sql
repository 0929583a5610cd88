-- The maintenance that consumers do for their queue, in bulk by index and a bounded amount: take
-- back expired leases, make due messages ready, end expired messages, advance groups. Reads leases
-- from a token on and scheduled rows from a time on. Returns how many messages it moved.
create or replace function pgq._upkeep(
    queue pgq.queue, lease bigint, due timestamptz, now timestamptz,
    "rows" int default pgq._limit('upkeep_rows'),
    messages int default pgq._limit('upkeep_messages')
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_waiting record;
    v_count int := 0;
begin
    select exists (select from pgq.lease l
                   where l.lease_id >= coalesce(lease, 0)
                     and l.lease_id < pgq._lease_second_end(now)
                     and l.queue_id = queue.queue_id and l.until <= now) as ended,
           exists (select from pgq.scheduled s
                   where s.queue_id = queue.queue_id and s.due_at <= now
                     and s.due_at >= coalesce(due, '-infinity')) as due,
           exists (select from pgq.ready r
                   where r.queue_id = queue.queue_id and r.expires_at <= now) as expired,
           exists (select from pgq.group_stall g where g.queue_id = queue.queue_id) as stalled
    into v_waiting;
    if v_waiting.stalled then
        v_count := v_count + pgq._move_on(queue, now);
    end if;
    if v_waiting.ended then
        v_count := v_count + pgq._take_back(queue, lease, "rows", messages, now);
    end if;
    if v_waiting.due then
        v_count := v_count + pgq._promote(queue, due, "rows", messages, now);
    end if;
    if v_waiting.expired or v_waiting.due then
        v_count := v_count + pgq._expire_rows(queue, "rows", messages / 20, now);
    end if;
    return v_count;
end
$$;
comment on function pgq._upkeep(pgq.queue, bigint, timestamptz, timestamptz, int, int) is
    'Takes back expired leases, makes due messages ready and ends expired messages, a limited '
    'number per call.';
