-- Raises QU003 unless the caller, who is not the owner, may consume the queue of the lease: tokens
-- are numbers that can be guessed.
create or replace function pgq._require_lease(caller name, lease_id bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from pgq.lease l
        join pgq.queue_right r on r.queue_id = l.queue_id
        where l.lease_id = _require_lease.lease_id and r.right in ('consume', 'admin')
          and pg_has_role(_require_lease.caller, r.role, 'usage'))
    then
        perform pgq._lose_lease(lease_id);
    end if;
end
$$;
comment on function pgq._require_lease(name, bigint) is
    'Raises QU003 unless the caller may consume the queue of the lease.';
revoke all on function pgq._require_lease(name, bigint) from public;
