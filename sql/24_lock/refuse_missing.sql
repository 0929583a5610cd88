-- Raises an error for a lease with ids that have no message: 40001 if the transaction reads with an
-- old snapshot, else XX001. Otherwise the caller could acknowledge messages that it never got.
create or replace function pgq._refuse_missing(lease_id bigint) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._refuse_snapshot();
    raise exception 'lease % holds messages that are not in the log', lease_id
        using errcode = 'data_corrupted',
              hint = 'select * from pgq.check() names them. Restore them from a backup.';
end
$$;
comment on function pgq._refuse_missing(bigint) is
    'Raises an error for a lease with ids that have no message.';
