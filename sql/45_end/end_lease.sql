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
        return query delete from pgq.lease l where l.lease_id = _end_lease.lease_id returning l.*;
        if found then
            return;
        end if;
    elsif v_wanted = '{}' then
        return;
    end if;
    -- Waits for a transaction that is ending the same lease, and then sees what it has left.
    for v_part in
        select l.* from pgq.lease l
        where l.lease_id = _end_lease.lease_id order by l.part for update
    loop
        v_found := true;
        if v_part.ids <@ v_wanted then
            delete from pgq.lease l where l.lease_id = v_part.lease_id and l.part = v_part.part;
        elsif v_part.ids && v_wanted then
            update pgq.lease l
            set ids = l.ids - v_wanted, size = pgq._set_size(l.ids - v_wanted)
            where l.lease_id = v_part.lease_id and l.part = v_part.part;
            v_part.ids := v_part.ids * v_wanted;
            v_part.size := pgq._set_size(v_part.ids);
        else
            continue;
        end if;
        v_missing := v_missing - v_part.ids;
        return next v_part;
    end loop;
    if not v_found then
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
revoke all on function pgq._end_lease(bigint, bigint[]) from public;
