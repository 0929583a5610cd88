-- Raises QU003: one answer for a lease that is gone and for one of a queue not to be seen.
create or replace function pgq._lose_lease(lease_id bigint) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'lease % is lost', coalesce(lease_id::text, 'null')
        using errcode = 'QU003',
              hint = 'It was ended, or it expired and its messages are with another consumer. '
                  'Ask for a longer lease, or extend it while you work.';
end
$$;
comment on function pgq._lose_lease(bigint) is 'Raises QU003.';
revoke all on function pgq._lose_lease(bigint) from public;
