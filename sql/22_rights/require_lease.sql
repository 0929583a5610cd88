-- Raises QU003 unless the caller, who is not the owner, may consume the queue of the lease: lease
-- ids can be guessed.
create or replace function pgq._require_lease(caller name, lease_id bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Every row of the lease, although no token is shared by leases of several queues.
    if (select bool_and(exists (
            select from pgq.queue_right r
            where r.queue_id = l.queue_id and r.right in ('consume', 'admin')
              and pg_has_role(_require_lease.caller, r.role, 'usage')))
        from (select distinct p.queue_id from pgq.lease p
              where p.lease_id = _require_lease.lease_id) l) is not true
    then
        perform pgq._lose_lease(lease_id);
    end if;
end
$$;
comment on function pgq._require_lease(name, bigint) is
    'Raises QU003 unless the caller may consume the queue of the lease.';
