-- Gives back what expired leases hold, a bounded amount of it; returns how many messages.
create or replace function pgq._take_back(queue pgq.queue, most int, now timestamptz) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_sort = off
set jit = off
as $$
declare
    v_lease pgq.lease;
    v_part int8multirange;
    v_count int := 0;
begin
    for v_lease in
        select l.* from pgq.lease l
        where l.lease_id < pgq._lease_second(now + interval '1 s')
          and l.queue_id = queue.queue_id and l.until <= now
        order by l.lease_id limit 100 for update skip locked
    loop
        exit when v_count >= most;
        -- A failed dead-letter write must neither lose the message nor stop the claim.
        begin
            if v_lease.size > most then
                v_part := pgq._first_ids(v_lease.ids, most);
                update pgq.lease l set ids = l.ids - v_part, size = l.size - most
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
                v_lease.ids := v_part;
                v_lease.size := most;
            else
                delete from pgq.lease l
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
            end if;
            perform pgq._retry(queue, v_lease, 'timeout', interval '0', null, null, now);
            v_count := v_count + v_lease.size;
        exception
            when query_canceled or admin_shutdown or crash_shutdown then
                raise;
            when others then
                raise warning 'lease % could not be taken back: %', v_lease.lease_id, sqlerrm
                    using errcode = sqlstate,
                          hint = 'Its messages stay leased and are tried again by later claims.';
        end;
    end loop;
    return v_count;
end
$$;
comment on function pgq._take_back(pgq.queue, int, timestamptz) is
    'Gives back what expired leases hold.';
revoke all on function pgq._take_back(pgq.queue, int, timestamptz) from public;
