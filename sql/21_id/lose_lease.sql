-- Raises QU003: the same error for a lease that has ended and for one that the caller may not see.
create or replace function pgq._lose_lease(lease_id bigint) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    -- No token is that small: tokens begin with the seconds since the beginning of 2025.
    if coalesce(lease_id, 0) < 1::bigint << 40 then
        raise exception '% is not a lease id', coalesce(lease_id::text, 'null')
            using errcode = 'QU003',
                  hint = 'Use the lease_id that pgq.claim has returned, not the id of a message; '
                      'ids are the second argument.';
    end if;
    raise exception 'lease % is lost', lease_id
        using errcode = 'QU003',
              hint = 'It was ended, or it expired and its messages are with another consumer. '
                  'Ask for a longer lease, or extend it while you work.';
end
$$;
comment on function pgq._lose_lease(bigint) is 'Raises QU003.';
