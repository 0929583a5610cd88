-- Raises an error if fewer messages of a lease were read than it holds. Otherwise the caller could
-- acknowledge messages that it never got.
create or replace function pgq._check_read(lease_id bigint, read int) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if read < (select sum(l.size) from pgq.lease l where l.lease_id = _check_read.lease_id) then
        perform pgq._refuse_missing(lease_id);
    end if;
end
$$;
comment on function pgq._check_read(bigint, int) is
    'Raises an error if messages of a lease were not found.';
