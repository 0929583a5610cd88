-- Takes back the messages of expired leases, a bounded number; returns how many.
create or replace function pgq._take_back(
    queue pgq.queue, lease bigint, "rows" int, messages int, now timestamptz
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease pgq.lease;
    v_part int8multirange;
    v_last bigint;     -- the delivery whose rows are being taken back
    v_rows bigint;     -- how many rows it has
    v_whole boolean;   -- all of them are locked
    v_alone boolean;
    v_several bigint[] := '{}';
    v_count int := 0;
begin
    for v_lease in
        select l.* from pgq.lease l
        where l.lease_id >= coalesce(_take_back.lease, 0)
          and l.lease_id < pgq._lease_second_end(now)
          and l.queue_id = queue.queue_id and l.until <= now
        order by l.lease_id, l.part limit "rows" for update skip locked
    loop
        exit when v_count >= messages;
        if v_lease.lease_id is distinct from v_last then
            v_last := v_lease.lease_id;
            -- All rows of a delivery or none: an ack that has locked one of them may roll back.
            select count(*) into v_rows from pgq.lease l where l.lease_id = v_last;
            v_whole := v_rows = 1 or v_rows = (
                select count(*) from (
                    select from pgq.lease l where l.lease_id = v_last for update skip locked) x);
            if v_whole and v_rows > 1 then
                v_several := v_several || v_last;
            end if;
        end if;
        continue when not v_whole;
        -- The messages left of a delivery that times out are suspect, unless it is a single
        -- message: then it is known which one is the cause.
        v_alone := v_rows = 1 and v_lease.size = 1 and v_lease.shared is not true;
        -- A failed dead-letter write must neither lose the message nor stop the claim.
        begin
            if v_lease.size > messages then
                v_part := pgq._first_ids(v_lease.ids, messages);
                update pgq.lease l set ids = l.ids - v_part, size = l.size - messages,
                                       shared = true
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
                v_lease.ids := v_part;
                v_lease.size := messages;
            else
                delete from pgq.lease l
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
            end if;
            perform pgq._retry(queue, v_lease, 'timeout', interval '0', null, null, now, v_alone);
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
    -- Mark the rows that are left to a later call.
    if v_several <> '{}' then
        update pgq.lease l set shared = true where l.lease_id = any (v_several);
    end if;
    return v_count;
end
$$;
comment on function pgq._take_back(pgq.queue, bigint, int, int, timestamptz) is
    'Takes back the messages of expired leases.';
