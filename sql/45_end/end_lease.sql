-- Takes messages out of a lease: all that it holds, or the given ids, or nothing and QU003.
create or replace function pgq._end_lease(lease_id bigint, ids bigint[]) returns setof pgq.lease
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_wanted int8multirange := case when ids is not null then pgq._set_of(ids) end;
    v_missing int8multirange := v_wanted;
    v_part pgq.lease;
    v_found boolean := false;
begin
    if v_wanted is null then
        for v_part in
            delete from pgq.lease l where l.lease_id = _end_lease.lease_id returning l.*
        loop
            v_found := true;
            return next v_part;
        end loop;
        if not v_found then
            perform pgq._lose_lease(lease_id);
        end if;
        if v_part.flow is not null then
            perform pgq._wake(v_part.queue_id);  -- the limit has room again
        end if;
        return;
    elsif v_wanted = '{}' then
        return;
    end if;
    -- Waits for a transaction that is ending the same lease, and then sees what it has left.
    for v_part in
        select l.* from pgq.lease l
        where l.lease_id = _end_lease.lease_id and l.ids && v_wanted
        order by l.part for update
    loop
        v_found := true;
        if v_part.ids <@ v_wanted then
            delete from pgq.lease l where l.lease_id = v_part.lease_id and l.part = v_part.part;
        else
            v_part.ids := v_part.ids * v_wanted;
            v_part.size := pgq._set_size(v_part.ids);
            -- Counts the ids that leave: the rest may be 50,000 ranges.
            update pgq.lease l set ids = l.ids - v_part.ids, size = l.size - v_part.size
            where l.lease_id = v_part.lease_id and l.part = v_part.part;
        end if;
        v_missing := v_missing - v_part.ids;
        if v_part.flow is not null then
            perform pgq._wake(v_part.queue_id);
        end if;
        return next v_part;
    end loop;
    if not v_found and not exists (
        select from pgq.lease l where l.lease_id = _end_lease.lease_id)
    then
        perform pgq._lose_lease(lease_id);
    end if;
    if v_missing <> '{}' then
        raise exception 'lease % does not hold message %', lease_id, lower(v_missing)
            using errcode = 'QU003',
                  detail = format('Not held: %s.', v_missing),
                  hint = 'What was acknowledged, refused or buried has left the lease.';
    end if;
end
$$;
comment on function pgq._end_lease(bigint, bigint[]) is 'Takes messages out of a lease, or QU003.';
